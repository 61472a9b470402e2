import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from normwise.data.neighbors import jaccard, keep_distinct, shingles


def slow_shingles(text, width=5):
    import re

    words = re.findall(r"[^\W\d]\w*|\d+|[^\s\w]", text)
    words += [""] * (width - len(words))
    return {tuple(words[start : start + width]) for start in range(len(words) - width + 1)}


def slow_jaccard(one, other):
    one, other = slow_shingles(one), slow_shingles(other)
    return len(one & other) / len(one | other)


WORDS = st.lists(st.sampled_from(["a", "bb", "(", "12", "while"]), min_size=1, max_size=30).map(" ".join)


@given(WORDS, WORDS)
def test_similarity_equals_the_slow_one(one, other):
    numbers = {}
    assert jaccard(shingles(one, numbers), shingles(other, numbers)) == slow_jaccard(one, other)


def variants(seed, count=40):
    rng = np.random.default_rng(seed)
    bases = [[f"w{n}" for n in rng.integers(0, 500, 60)] for _ in range(count)]
    texts = []
    for base in bases:
        texts.append(" ".join(base))
        changed = list(base)
        for place in rng.choice(60, rng.integers(0, 6), replace=False):
            changed[place] = "other"
        texts.append(" ".join(changed))
    return [texts[row] for row in rng.permutation(len(texts))]


def test_kept_texts_equal_the_greedy_oracle():
    texts = variants(0)
    kept = []
    expected = []
    for text in texts:
        good = all(slow_jaccard(text, other) < 0.7 for other in kept)
        expected.append(good)
        if good:
            kept.append(text)
    assert keep_distinct(texts).tolist() == expected
    assert 40 < sum(expected) < 80


def test_layout_and_comments_do_not_count():
    assert keep_distinct(["x = f(a, b, c)\nreturn x", "x   =  f(a,b,c)  # note\n\n  return x"]).tolist() == [True, False]
    assert keep_distinct([]).tolist() == []
