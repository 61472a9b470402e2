"""Token files: every kind and every cut makes the counts of the documents in memory; what is refused, with file and place."""

import pickle
import tracemalloc

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from token_worlds import END, VOCABULARY, as_text, counted, documents, ended, expected, plan_of, same, write_parquet, write_tokenizer

from normwise.core.errors import InputError
from normwise.data.token_files import TokenReading, open_token_files

presences = st.sampled_from([2, 9, 40, "prefix"])
sizes = st.sampled_from([1, 2, 7, 50, 10_000])


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("tokens")


@given(st.integers(0, 10**6), presences, sizes)
def test_arrays_are_cut_anywhere_with_the_same_counts(folder, seed, presence, size):
    texts = ended(documents(seed, count=12))
    np.save(folder / "a.npy", np.concatenate(texts).astype(np.uint16))
    files = open_token_files(folder / "a.npy", TokenReading(vocabulary=VOCABULARY, end=END, shard_tokens=size))
    plan = plan_of(presence=presence)
    assert same(counted(files, plan), expected(texts, plan))
    assert size < 10_000 or len(files.shards) == 1


@given(st.integers(0, 10**6), presences, st.sampled_from([1, 13, 64]))
def test_an_array_without_end_ids_is_one_document(folder, seed, presence, size):
    whole = np.concatenate(documents(seed, count=8))
    whole.astype(">i4").tofile(folder / "one.bin")
    files = open_token_files(folder / "one.bin", TokenReading(vocabulary=VOCABULARY, dtype=">i4", shard_tokens=size))
    plan = plan_of(presence=presence)
    assert same(counted(files, plan), expected([whole], plan))
    assert len(files.shards) == -(-whole.size // size)


def test_cuts_are_moved_to_the_end_of_a_document_nearby(folder):
    texts = ended(documents(1, count=400))
    ids = np.concatenate(texts)
    np.save(folder / "near.npy", ids)
    files = open_token_files(folder / "near.npy", TokenReading(vocabulary=VOCABULARY, end=END, shard_tokens=500))
    cuts = [shard.start for shard in files.shards][1:]
    assert len(cuts) == ids.size // 500
    assert all(ids[cut - 1] == END for cut in cuts)
    assert all(0 <= 500 * place - cut < 31 for place, cut in enumerate(cuts, start=1))


@given(st.integers(0, 10**6), presences, st.sampled_from([1, 3, 1000]), st.booleans())
def test_rows_of_parquet_are_documents(folder, seed, presence, group, with_end):
    texts = documents(seed, count=15)
    if with_end:
        # An end id inside a row ends a document too: every row holds two.
        pairs = [np.concatenate([np.append(one, END), two]) for one, two in zip(texts, texts[1:], strict=False)]
        write_parquet(folder / "rows.parquet", pairs, group_rows=group)
        texts = [half for one, two in zip(texts, texts[1:], strict=False) for half in (np.append(one, END), two)]
    else:
        write_parquet(folder / "rows.parquet", [*texts[:4], np.zeros(0, dtype=int), *texts[4:]], group_rows=group)
    reading = TokenReading(vocabulary=VOCABULARY, end=END if with_end else None, shard_tokens=20)
    files = open_token_files(folder / "rows.parquet", reading)
    plan = plan_of(presence=presence)
    assert same(counted(files, plan), expected(texts, plan))


@given(
    st.integers(0, 10**6),
    presences,
    st.sampled_from([1, 5, 1000]),
    st.sampled_from(["lines", "paragraphs"]),
    st.sampled_from(["\n", "\r\n"]),
)
def test_texts_are_tokenized_whole(folder, seed, presence, size, kind, line_end):
    texts, rng = documents(seed, count=15), np.random.default_rng(seed)
    write_tokenizer(folder / "tokenizer.json")
    shown = [as_text(text) for text in texts]
    if kind == "paragraphs":
        shown = [line_end.join([as_text(text[:3]), as_text(text[3:])] if text.size > 3 else [as_text(text)]) for text in texts]
    gaps = [line_end * int(rng.integers(1 if kind == "lines" else 2, 5)) for _ in shown]
    (folder / "t.txt").write_bytes("".join(text + gap for text, gap in zip(shown, gaps, strict=True)).rstrip().encode())
    reading = TokenReading(tokenizer=folder, documents=kind, end=END, shard_tokens=size)
    files = open_token_files(folder / "t.txt", reading)
    plan = plan_of(presence=presence)
    assert same(counted(files, plan), expected(ended(texts), plan))
    assert len(files.shards) > 5 if size == 1 else len(files.shards) >= 1


def test_text_needs_no_end_id_and_may_begin_with_a_mark(folder):
    write_tokenizer(folder / "tokenizer.json")
    (folder / "mark.txt").write_bytes(b"\xef\xbb\xbfw1 w2\n\n  \nw3 unknown\n")
    files = open_token_files(folder / "mark.txt", TokenReading(tokenizer=folder / "tokenizer.json"))
    plan = plan_of(presence=2)
    assert same(counted(files, plan), expected([np.array([1, 2]), np.array([3, 11])], plan))


def test_many_files_of_many_kinds_make_one_corpus(folder):
    texts = ended(documents(5, count=30))
    below = folder / "many/below"
    below.mkdir(parents=True)
    np.save(folder / "many/b.npy", np.concatenate(texts[:7]).astype(np.uint8))
    np.save(below / "a.npy", np.concatenate(texts[7:12]).astype(np.int64))
    np.concatenate(texts[12:20]).astype(np.uint16).tofile(folder / "many/c.dat")
    write_parquet(folder / "many/d.parquet", texts[20:25])
    write_tokenizer(folder / "tokenizer.json")
    (folder / "many/e.txt").write_text("\n".join(as_text(text[:-1]) for text in texts[25:]), encoding="utf-8")
    reading = TokenReading(vocabulary=VOCABULARY, end=END, dtype="uint16", column="ids", tokenizer=folder, shard_tokens=40)
    patterns = [str(folder / "many/**/*.npy"), folder / "many/c.dat", folder / "many/*.parquet", folder / "many/e.txt"]
    files = open_token_files(patterns, reading)
    plan = plan_of(presence="prefix")
    assert same(counted(files, plan), expected(texts, plan))
    names = [source.path.rsplit("/", 1)[1] for source in files.sources]
    assert names == ["b.npy", "a.npy", "c.dat", "d.parquet", "e.txt", "tokenizer.json"]
    again = pickle.loads(pickle.dumps(files.shards))
    assert again == files.shards
    assert [shard.size for shard in again] == [shard.path.stat().st_size for shard in again]


def test_opening_reads_no_tokens(folder):
    path = folder / "large.npy"
    held = np.lib.format.open_memmap(path, mode="w+", dtype=np.uint16, shape=(20_000_000,))
    held[::50] = 1
    del held
    tracemalloc.start()
    files = open_token_files(path, TokenReading(vocabulary=2, end=1))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    path.unlink()
    assert len(files.shards) == 77
    assert peak < 4_000_000


def test_the_fingerprint_follows_sources_and_settings(folder):
    path = folder / "f.npy"
    ids = np.concatenate(ended(documents(2)))
    np.save(path, ids)
    reading = {"vocabulary": VOCABULARY, "end": END}
    first = open_token_files(path, TokenReading(**reading)).fingerprint
    assert open_token_files(str(path), TokenReading(**reading)).fingerprint == first
    others = [{"vocabulary": 13}, {"end": 1}, {"end": None}, {"shard_tokens": 9}]
    found = {open_token_files(path, TokenReading(**(reading | other))).fingerprint for other in others}
    ids[5] = 11
    np.save(path, ids)
    found.add(open_token_files(path, TokenReading(**reading)).fingerprint)
    assert len(found | {first}) == len(others) + 2


def saved(path, values):
    np.save(path, values)
    return path


@pytest.mark.parametrize(
    ("values", "reading", "words"),
    [
        (np.array([1, 2, 12], dtype=np.uint16), {}, r"x\.npy, token 2 \(from 0\): id 12; expected ids from 0 to 11: is this the right voc"),
        (np.array([1, -3, 2]), {}, r"x\.npy, token 1 \(from 0\): id -3; expected ids from 0 to 11"),
        (np.array([1.0, 2.0]), {}, r"x\.npy holds float64; expected integer token ids"),
        (np.array([[1, 2], [3, 4]]), {}, r"x\.npy has shape \(2, 2\); expected one row of token ids"),
        (np.array([], dtype=int), {}, r"x\.npy holds no tokens"),
        (np.array([True]), {}, r"x\.npy holds bool"),
        (np.array([1, 2]), {"end": 12}, r"end is 12; expected an id from 0 to 11"),
        (np.array([1, 2]), {"vocabulary": None}, r"vocabulary is not told; expected the number of token ids"),
        (np.array([1, 2]), {"vocabulary": 0}, r"vocabulary is 0; expected at least 1"),
        (np.array([1, 2]), {"shard_tokens": 0}, r"shard_tokens is 0"),
        (np.array([1, 2]), {"dtype": "uint16"}, r"dtype belongs to \.bin or \.dat files, and none is named"),
        (np.array([1, 2]), {"column": "ids"}, r"column belongs to \.parquet files"),
        (np.array([1, 2]), {"tokenizer": "t"}, r"tokenizer belongs to text files"),
        (np.array([1, 2]), {"documents": "lines"}, r"documents belongs to text files"),
        (np.array([1, 2]), {"documents": "pages"}, r"documents is 'pages'; expected 'lines' or 'paragraphs'"),
    ],
)
def test_arrays_that_hold_no_tokens_are_refused(tmp_path, values, reading, words):
    path = saved(tmp_path / "x.npy", values)
    with pytest.raises(InputError, match=words):
        counted(open_token_files(path, TokenReading(**({"vocabulary": VOCABULARY} | reading))), plan_of())


def test_npy_files_that_are_none_are_refused(tmp_path):
    reading = TokenReading(vocabulary=VOCABULARY)
    path = saved(tmp_path / "x.npy", np.arange(100) % 10)
    whole = path.read_bytes()
    path.write_bytes(whole[:-9])
    with pytest.raises(InputError, match=r"x\.npy is cut short: \(100,\) of int64 make 928 bytes, and it has 919"):
        open_token_files(path, reading)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.npy is not a \.npy file of numbers"):
        open_token_files(path, reading)
    with path.open("wb") as file:
        pickle.dump([1, 2], file)
    with pytest.raises(InputError, match=r"x\.npy is not a \.npy file of numbers"):
        open_token_files(path, reading)
    np.save(path, np.array([1, None], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match=r"x\.npy is not a \.npy file of numbers: it holds Python objects"):
        open_token_files(path, reading)


def test_ids_before_a_shard_are_checked_where_they_stand(tmp_path):
    path = saved(tmp_path / "x.npy", np.array([1] * 50 + [99] + [2] * 50))
    files = open_token_files(path, TokenReading(vocabulary=VOCABULARY, shard_tokens=10))
    with pytest.raises(InputError, match=r"token 50 \(from 0\): id 99"):
        list(files.shards[9].parts(plan_of(presence="prefix")))


@pytest.mark.parametrize(
    ("content", "dtype", "words"),
    [
        (b"\1\0\2\0", None, r"x\.bin holds bare numbers, which do not tell their type: name it as dtype"),
        (b"", "uint16", r"x\.bin is empty"),
        (b"\1\0\2", "uint16", r"x\.bin has 3 bytes, no multiple of the 2 of uint16"),
        (b"\1\0\2\0", "uint17", r"dtype is 'uint17'; expected the name of an integer type"),
        (b"\1\0\2\0", "float16", r"x\.bin holds float16; expected integer token ids"),
        (b"\1\0\2\0", "int32", r"x\.bin, token 0 \(from 0\): id 131073; expected ids from 0 to 11: .* and the right type\?"),
    ],
)
def test_raw_files_that_hold_no_tokens_are_refused(tmp_path, content, dtype, words):
    path = tmp_path / "x.bin"
    path.write_bytes(content)
    with pytest.raises(InputError, match=words):
        counted(open_token_files(path, TokenReading(vocabulary=VOCABULARY, dtype=dtype)), plan_of())


@pytest.mark.parametrize(
    ("table", "column", "words"),
    [
        ({"ids": [[1, 2], [3, 12]]}, None, r"x\.parquet, row 1 \(from 0\), column ids, place 1: id 12; expected ids from 0 to 11"),
        ({"ids": [[], [1], [-1]]}, None, r"row 2 \(from 0\), column ids, place 0: id -1"),
        ({"ids": [[1], None]}, None, r"row 1 \(from 0\), column ids: no list there"),
        ({"ids": [[1], [2, None]]}, None, r"row 1 \(from 0\), column ids, place 1: an id is missing"),
        ({"ids": [[1.5]]}, None, r"expected one column of lists of integers, it has ids"),
        ({"ids": [[1.5]], "b": [[1]]}, "ids", r"column 'ids' holds list<.*double>; expected lists of integer token ids"),
        ({"a": [[1]], "b": [[2]]}, None, r"2 columns hold ids: a, b; name one as column"),
        ({"a": [[1]]}, "b", r"x\.parquet has no column 'b'; it has a"),
        ({"a": pa.array([], pa.list_(pa.int32()))}, None, r"x\.parquet has no rows"),
    ],
)
def test_parquet_that_holds_no_tokens_is_refused(tmp_path, table, column, words):
    path = tmp_path / "x.parquet"
    pq.write_table(pa.table(table), path)
    with pytest.raises(InputError, match=words):
        counted(open_token_files(path, TokenReading(vocabulary=VOCABULARY, column=column)), plan_of())


def test_rows_are_numbered_over_groups_and_batches(tmp_path):
    texts = documents(0, count=30)
    texts[23][0] = 77
    write_parquet(tmp_path / "x.parquet", texts, group_rows=10)
    files = open_token_files(tmp_path / "x.parquet", TokenReading(vocabulary=VOCABULARY, shard_tokens=20))
    with pytest.raises(InputError, match=r"row 23 \(from 0\), column ids, place 0: id 77"):
        counted(files, plan_of())
    (tmp_path / "y.parquet").write_bytes(b"no parquet")
    with pytest.raises(InputError, match=r"y\.parquet is not a readable parquet file"):
        open_token_files(tmp_path / "y.parquet", TokenReading(vocabulary=VOCABULARY))


def test_texts_that_are_none_are_refused(tmp_path):
    write_tokenizer(tmp_path / "tokenizer.json")
    path = tmp_path / "x.txt"
    path.write_bytes(b"")
    with pytest.raises(InputError, match=r"x\.txt is empty; expected text"):
        open_token_files(path, TokenReading(tokenizer=tmp_path))
    path.write_bytes(b"w1 w2\nw3 \xff\n")
    with pytest.raises(InputError, match=r"x\.txt, document at byte 6: not UTF-8 \(byte 0xff\)"):
        counted(open_token_files(path, TokenReading(tokenizer=tmp_path)), plan_of())
    path.write_bytes(b"w1 w2\n\nw3\nw4\nw5 \xff\n")
    with pytest.raises(InputError, match=r"x\.txt, document at byte 7: not UTF-8"):
        counted(open_token_files(path, TokenReading(tokenizer=tmp_path, documents="paragraphs")), plan_of())
    with pytest.raises(InputError, match=r"x\.txt is text, whose tokens a tokenizer makes"):
        open_token_files(path, TokenReading(vocabulary=VOCABULARY))
    with pytest.raises(InputError, match=r"tokenizer\.json has ids up to 11, and the vocabulary 9: it is not this vocabulary's tokenizer"):
        open_token_files(path, TokenReading(vocabulary=9, tokenizer=tmp_path))
    with pytest.raises(InputError, match=r"gone does not exist"):
        open_token_files(path, TokenReading(tokenizer=tmp_path / "gone"))
    (tmp_path / "tokenizer.json").write_text('{"model": 1}', encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer\.json is not a tokenizer\.json: .*; save it with tokenizer\.save"):
        open_token_files(path, TokenReading(tokenizer=tmp_path))


def test_a_missing_library_is_named_with_its_extra(tmp_path, monkeypatch):
    write_tokenizer(tmp_path / "tokenizer.json")
    (tmp_path / "x.txt").write_text("w1", encoding="utf-8")
    monkeypatch.setitem(__import__("sys").modules, "tokenizers", None)
    with pytest.raises(ImportError, match=r'tokenizers is not installed; run: pip install "normwise\[train\]"'):
        open_token_files(tmp_path / "x.txt", TokenReading(tokenizer=tmp_path))


def test_paths_that_name_no_tokens_are_refused(tmp_path):
    reading = TokenReading(vocabulary=VOCABULARY)
    path = saved(tmp_path / "x.npy", np.array([1, 2]))
    for corpus, words in (
        ([], r"corpus names no file"),
        (tmp_path / "gone.npy", r"gone\.npy does not exist; expected a file of tokens: \.npy"),
        (tmp_path, r"is a folder: name its files, as FOLDER/\*\.npy"),
        (f"{tmp_path}/*.bin", r"\*\.bin' matches no file"),
        ([path, f"{tmp_path}/*"], r"x\.npy is named twice, and would be counted twice"),
        (" ", r"corpus ' ' is blank"),
    ):
        with pytest.raises(InputError, match=words):
            open_token_files(corpus, reading)
    (tmp_path / "link.npy").symlink_to(path)
    with pytest.raises(InputError, match=r"link\.npy is named twice"):
        open_token_files([path, tmp_path / "link.npy"], reading)
    (tmp_path / "x.jsonl").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"x\.jsonl: files named \.jsonl are not read as tokens; expected \.npy"):
        open_token_files(tmp_path / "x.jsonl", reading)


def test_files_that_change_are_refused(tmp_path):
    path = saved(tmp_path / "x.npy", np.arange(100) % 10)
    files = open_token_files(path, TokenReading(vocabulary=VOCABULARY))
    files.refuse_changed()
    path.write_bytes(path.read_bytes() + b"more")
    with pytest.raises(InputError, match=r"x\.npy has 932 bytes, and had 928 when it was opened: it changed"):
        counted(files, plan_of())
    with pytest.raises(InputError, match=r"x\.npy changed while it was counted"):
        files.refuse_changed()
