"""Planned batches reach every process of a launch, whatever their sizes."""

from __future__ import annotations

import numpy as np
import pytest
from accelerate.data_loader import BatchSamplerShard

from normwise.training.trainer import PlannedBatches


@pytest.mark.parametrize("sizes", [[4, 4, 4, 4], [4, 4, 5, 3], [2, 7, 3, 3]])
@pytest.mark.parametrize("drop_last", [False, True])
def test_two_processes_share_all_batches(sizes, drop_last):
    rows = np.arange(sum(sizes))
    plan = np.split(rows, np.cumsum(sizes)[:-1])
    batches = PlannedBatches(plan)
    batches.drop_last = drop_last
    shards = [list(BatchSamplerShard(batches, 2, rank, even_batches=False)) for rank in (0, 1)]
    assert [row for pair in zip(*shards, strict=True) for shard in pair for row in shard] == rows.tolist()


def test_the_plan_is_repeated_unchanged():
    plan = [np.array([3, 1]), np.array([2, 0, 4])]
    batches = PlannedBatches(plan)
    assert list(batches) == list(batches) == [[3, 1], [2, 0, 4]]
    assert len(batches) == 2
