"""What every test gets: no hub, checked shapes, hypothesis profiles, the real small model."""

from __future__ import annotations

import gc
import os
import signal

import pytest

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
os.environ.setdefault("GOMP_SPINCOUNT", "0")
if "PYTEST_XDIST_WORKER" in os.environ:
    os.environ.setdefault("OMP_NUM_THREADS", "1")  # the workers share the cores

from hypothesis import HealthCheck, settings
from jaxtyping import install_import_hook

# Shapes and dtypes in signatures are checked in the test run only.
_hook = install_import_hook(["normwise.theory", "normwise.objectives"], "beartype.beartype")

_quiet = [HealthCheck.too_slow, HealthCheck.data_too_large]
settings.register_profile("quick", max_examples=25, deadline=None, suppress_health_check=_quiet, derandomize=False)
settings.register_profile("long", max_examples=500, deadline=None, suppress_health_check=_quiet)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


def pytest_collection_finish(session):
    """What has been imported lives to the end: each full collection, and every training asks for one, would walk over all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture
def interruptible():
    """Ctrl-C as Python takes it: a shell that starts a job in the background has it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
