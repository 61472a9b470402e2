"""The small language model's staircase: verdicts on planted series, and a short real run on a text of one's own."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from stair_series import VOCABULARY, bigram_chain, ids_of

from normwise.core.errors import InputError
from normwise.core.staircase_records import StaircaseReport, TrackReport
from normwise.engine.order_counting import OrderCounting, orders_of_stream
from normwise.theory.token_stream import TokenStream
from normwise.training.stair_track import StairTrack
from normwise.workflows.staircase_demo import staircase_demo
from normwise.workflows.staircase_text import text_verdict


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """30,000 words of a chain, in paragraphs."""
    ids = ids_of(bigram_chain(), length=30_000)
    words = [f"{chr(97 + number // 26)}{chr(97 + number % 26)}q" for number in range(VOCABULARY)]
    paragraphs = [" ".join(words[token] for token in row) for row in ids.reshape(-1, 50)]
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("\n\n".join(paragraphs), encoding="utf-8")
    return path


def report_of(parts: list[float], *, seed: int) -> TrackReport:
    stream = TokenStream(ids_of(bigram_chain()).astype(np.int64), vocabulary=VOCABULARY)
    counted = orders_of_stream(stream, OrderCounting(orders=(0, 1), tokens=30, window=4))
    own = counted.signatures._values[0]
    own = own / np.linalg.norm(own, axis=1, keepdims=True)
    noise = np.random.default_rng(seed).normal(size=own.shape)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    track = StairTrack(counted)
    for at, part in enumerate(parts):
        track.record_rows(10 * at, (part * own + (1.0 - part) * noise).astype(np.float32))
    return track.report()


PEAK = [0.0, 0.7, 0.9, *([0.4] * 10)]
RISE = [0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9]


def test_a_verdict_needs_four_seeds_of_five() -> None:
    peaks = [report_of(PEAK, seed=seed) for seed in range(4)]
    other = report_of([0.0] * 13, seed=9)
    found = text_verdict([*peaks, other], beyond=())
    assert found.label == "early-peak"
    assert found.text.startswith("Alignment with the next word peaks early, and then falls to a level above its null, in 4 of 5 seeds.")
    assert "By seed: early-peak in 4, no-stair in 1." in found.text
    assert "peaks at step 20" in found.text
    mixed = text_verdict([*peaks[:3], other, other], beyond=())
    assert mixed.label == "mixed"
    assert mixed.text.startswith("The seeds differ: early-peak in 3, no-stair in 2 of 5.")


def test_a_rise_without_decay_is_told() -> None:
    found = text_verdict([report_of(RISE, seed=seed) for seed in range(2)], beyond=())
    assert found.label == "no-decay"
    assert "From its peak to the last step order 0 falls by 0.000 to 0.000; 0.05 counts." in found.text


def test_a_short_run_on_a_text_of_ones_own(text: Path, tmp_path: Path) -> None:
    told: list[str] = []
    found = staircase_demo("text", corpus=text, vocabulary=200, seeds=2, steps=12, report=tmp_path / "page.html", told=told.append)
    assert StaircaseReport.from_json(found.to_json()) == found
    assert found.settings.task == "text"
    assert found.settings.seeds == (100, 101)
    assert found.steps[0] == 0
    assert found.steps[-1] == 12
    assert len(found.alignment["1"]) == len(found.steps) == len(found.loss) == len(found.spread["alignment_0"])
    assert found.loss[0] is not None
    assert found.loss[-1] is not None
    assert found.loss[-1] < found.loss[0]
    assert [row.seed for row in found.stairs_by_seed] == [100, 101]
    assert all(row.task is None for row in found.stairs_by_seed)
    assert found.thresholds.learned is None
    assert found.integrity.duplicates == ()
    assert found.maps[0].step == 0
    assert len(found.maps[0].names) == VOCABULARY
    assert any("2 seeds" in note for note in found.notes)
    assert len(told) == 3
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"modulus": 20}, "modulus is 20 and the task text, which has none"),
        ({"optimizer": "sgd"}, "optimizer is 'sgd' and the task text, which has AdamW"),
        ({"vocabulary": 10}, "vocabulary is 10; expected a whole number of 200 to 100,000"),
        ({"seeds": 1}, "seeds is 1; expected a whole number of 2 to 100"),
    ],
)
def test_settings_of_other_tasks_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        staircase_demo("text", **settings)  # pyright: ignore[reportArgumentType]


def test_a_corpus_is_of_text_alone(text: Path) -> None:
    with pytest.raises(InputError, match="corpus is of task text, and the task is 'mod': leave corpus out"):
        staircase_demo("mod", corpus=text)


def test_a_text_that_is_too_short_is_refused(tmp_path: Path) -> None:
    (tmp_path / "short.txt").write_text("A few words.\n\nAnd a few more.", encoding="utf-8")
    with pytest.raises(InputError, match="20,000"):
        staircase_demo("text", corpus=tmp_path / "short.txt")
