"""The recipe under torchrun: two processes end with the same weights, and one of them writes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytestmark = pytest.mark.slow

SCRIPT = Path(__file__).with_name("two_processes.py")


def test_two_processes_train_one_model(base_folder, tmp_path):
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        "--nproc-per-node",
        "2",
        str(SCRIPT),
        str(base_folder),
        str(tmp_path),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (np.load(tmp_path / f"vectors-{rank}.npy") for rank in (0, 1))
    np.testing.assert_array_equal(first, second)
    assert np.abs(first - np.load(tmp_path / "vectors-base.npy")).max() > 1e-3
    weights = [np.load(tmp_path / f"temperature-{rank}.npy") for rank in (0, 1)]
    assert weights[0] == weights[1]
    assert weights[0] != pytest.approx(0.1)
