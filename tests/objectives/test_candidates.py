"""Masks: equal tokens are equal texts, padding changes nothing, the own positive is never masked."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from normwise.objectives.candidates import (
    backward_duplicate_mask,
    duplicate_mask,
    embedding_rows,
    foreign_mask,
    group_ids,
    padding_mask,
    stack_rows,
    token_rows,
)

texts = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=1, max_size=7)


def padded(rows, *, width, left=False):
    ids, mask = [], []
    for row in rows:
        fill = [0] * (width - len(row))
        ids.append(fill + row if left else row + fill)
        mask.append([0] * len(fill) + [1] * len(row) if left else [1] * len(row) + [0] * len(fill))
    return torch.tensor(ids), torch.tensor(mask)


@given(rows=texts, extra=st.integers(0, 3), left=st.booleans(), cut=st.integers(1, 6))
def test_groups_are_equality_of_texts_however_they_are_padded_and_split(rows, extra, left, cut):
    parts = [part for part in (rows[:cut], rows[cut:]) if part]
    blocks = [token_rows(*padded(part, width=max(map(len, part)) + extra * n, left=left)) for n, part in enumerate(parts, start=1)]
    groups = group_ids(stack_rows(blocks))
    for i, a in enumerate(rows):
        for j, b in enumerate(rows):
            assert (groups[i] == groups[j]) == (a == b)


@given(rows=texts, data=st.data())
def test_duplicate_mask_is_the_loop(rows, data):
    n = len(rows)
    positive = data.draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=n))
    groups = group_ids(token_rows(*padded(rows, width=5)))
    mask = duplicate_mask(groups, torch.tensor(positive))
    expected = [[j != p and rows[j] == rows[p] for j in range(n)] for p in positive]
    assert mask.tolist() == expected


@given(queries=texts, data=st.data())
def test_backward_mask_is_the_loop(queries, data):
    n = len(queries)
    positives = data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n))
    mask = backward_duplicate_mask(group_ids(token_rows(*padded(queries, width=4))), torch.tensor(positives), torch.arange(n))
    assert mask.tolist() == [[i != j and (queries[i] == queries[j] or positives[i] == positives[j]) for j in range(n)] for i in range(n)]


def test_a_padding_token_inside_a_text_counts():
    rows = token_rows(torch.tensor([[5, 0, 0], [5, 0, 0]]), torch.tensor([[1, 0, 0], [1, 1, 0]]))
    assert group_ids(rows)[0] != group_ids(rows)[1]
    assert token_rows(torch.tensor([[5, 0]])).tolist() == [[5, 0]]


def test_embeddings_stand_in_for_missing_tokens():
    x = torch.randn(2, 4)
    rows = embedding_rows(torch.cat([x, x[:1]]))
    assert group_ids(rows)[0] == group_ids(rows)[2] != group_ids(rows)[1]


def test_owners_and_ragged_padding():
    assert foreign_mask(torch.tensor([0, 1, 1, -1]), torch.tensor([0, 1])).tolist() == [
        [False, True, True, False],
        [True, False, False, False],
    ]
    counts = [2, 0, 3]
    assert padding_mask(torch.tensor(counts), width=3).tolist() == [[j >= count for j in range(3)] for count in counts]


def test_no_rows():
    assert group_ids(torch.zeros(0, 3, dtype=torch.int64)).shape == (0,)
