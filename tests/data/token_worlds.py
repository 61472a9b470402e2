"""Documents of token ids, written as every kind of token file, and what is counted in them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from tokenizers.processors import TemplateProcessing

from normwise.theory.stream_counts import CountPlan, count_parts, whole
from normwise.theory.token_stream import TokenStream

VOCABULARY, END = 12, 0


def documents(seed, *, count=40, longest=30):
    """Documents of 1 to `longest` ids from 1 to 10; END and 11 are in none."""
    rng = np.random.default_rng(seed)
    return [rng.integers(1, 11, size=rng.integers(1, longest + 1)) for _ in range(count)]


def ended(texts):
    return [np.append(text, END) for text in texts]


def plan_of(**settings):
    rng = np.random.default_rng(3)
    probes = rng.integers(-1, 2, size=(2, VOCABULARY))
    defaults = {"of": np.array([3, 1, 0, 7]), "targets": np.arange(0, 12, 2), "contexts": np.arange(1, 9), "probes": probes}
    return CountPlan(vocabulary=VOCABULARY, **({"presence": 4, "near": 3} | defaults | settings))


def expected(texts, plan):
    """The counts of documents in memory, in one part."""
    starts = np.cumsum([0, *[text.size for text in texts[:-1]]])
    return count_parts([whole(TokenStream(np.concatenate(texts), vocabulary=VOCABULARY, starts=starts))], plan)


def same(one, two):
    return one.arrays.keys() == two.arrays.keys() and all(np.array_equal(one.arrays[name], two.arrays[name]) for name in one.arrays)


def counted(files, plan):
    """The counts of all shards, one after the other."""
    return count_parts((part for shard in files.shards for part in shard.parts(plan)), plan)


def write_parquet(path, texts, *, group_rows=7, name="ids"):
    pq.write_table(pa.table({name: pa.array([text.tolist() for text in texts], pa.list_(pa.int32()))}), path, row_group_size=group_rows)


def write_tokenizer(path):
    """Token t is the word "wt"; END has no word. It cuts at 5, fills up to 5 and adds w11 on both sides, as encoders' do."""
    words = {f"w{number}": number for number in range(1, VOCABULARY)}
    tokenizer = Tokenizer(WordLevel(words, unk_token="w11"))
    tokenizer.pre_tokenizer = WhitespaceSplit()
    tokenizer.post_processor = TemplateProcessing(single="w11 $A w11", special_tokens=[("w11", 11)])
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=5, pad_id=11, pad_token="w11")
    tokenizer.save(str(path))


def as_text(ids):
    return " ".join(f"w{token}" for token in ids)
