"""A track through one training: what it records, keeps and reports."""

from __future__ import annotations

import numpy as np
import pytest

from normwise.core.errors import InputError
from normwise.data.token_files import TokenReading, open_token_files
from normwise.engine.order_counting import CountedOrders, OrderCounting, count_orders
from normwise.engine.token_counting import Counting
from normwise.training import stair_track
from normwise.training.stair_track import StairTrack

VOCABULARY = 30


@pytest.fixture(scope="module")
def counted(tmp_path_factory: pytest.TempPathFactory) -> CountedOrders:
    random = np.random.default_rng(0)
    chain = random.dirichlet(np.full(VOCABULARY, 0.2), size=VOCABULARY)
    ids = np.zeros(6_000, dtype=np.uint16)
    for place in range(1, ids.size):
        ids[place] = random.choice(VOCABULARY, p=chain[ids[place - 1]])
    path = tmp_path_factory.mktemp("corpus") / "ids.npy"
    np.save(path, ids)
    files = open_token_files(path, TokenReading(vocabulary=VOCABULARY))
    return count_orders(files, OrderCounting(orders=(0, 1), tokens=20, named=(0, 1)), Counting(workers=1))


def toward(counted: CountedOrders, part: float, *, seed: int = 1) -> np.ndarray:
    """Rows of counted tokens: a part of the order-0 signature, the rest noise."""
    own = counted.signatures._values[0]
    own = own / np.linalg.norm(own, axis=1, keepdims=True)
    noise = np.random.default_rng(seed).normal(size=own.shape)
    noise /= np.linalg.norm(noise, axis=1, keepdims=True)
    return (part * own + (1.0 - part) * noise).astype(np.float32)


def recorded(counted: CountedOrders, parts: list[float]) -> StairTrack:
    track = StairTrack(counted)
    for at, part in enumerate(parts):
        track.record_rows(10 * at, toward(counted, part), loss=5.0 - at)
    return track


def test_a_planted_peak_is_found(counted: CountedOrders) -> None:
    found = recorded(counted, [0.0, 0.9, 1.0, 0.6, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]).report(source="planted")
    assert found.verdict.label == "early-peak"
    assert found.steps == tuple(range(0, 100, 10))
    assert found.stairs[0].onset == 10
    assert found.stairs[0].peak_step == 20
    assert found.alignment["0"][2] == pytest.approx(1.0, abs=1e-6)
    assert found.null["0"] == (0.0,) * 10
    assert all(spread is not None and spread > 0.0 for spread in found.spread["0"])
    assert found.loss[:2] == (5.0, 4.0)
    assert found.accuracy == (None,) * 10
    assert found.source == "planted"
    assert found.settings.orders == (0, 1)
    assert found.settings.tokens == 20
    assert found.predicted.exists
    assert found.predicted.growth_rate == pytest.approx(counted.signatures.growth_rate)
    assert {row.step for row in found.gains} >= {0, 20, 90}
    assert [row.order for row in found.gains if row.step == 20] == [-1, 0, 1]
    assert next(row.gain or 0.0 for row in found.gains if (row.step, row.order) == (20, 0)) > 0.5
    assert found.maps[0].step == 0
    assert found.maps[-1].step == 90
    assert 20 in {each.step for each in found.maps}
    assert type(found).from_json(found.to_json()) == found


def test_noise_has_no_stair(counted: CountedOrders) -> None:
    track = StairTrack(counted)
    for step in range(8):
        track.record_rows(step, toward(counted, 0.0, seed=step))
    found = track.report()
    assert found.verdict.label == "no-stair"
    assert "no order adds" in found.verdict.text


def test_neighbors_are_told_of_named_tokens_by_name(counted: CountedOrders) -> None:
    from dataclasses import replace

    named = replace(counted, names={int(token): f"w{token}" for token in counted.signatures.tokens})
    found = recorded(named, [0.0, 1.0]).report()
    assert sorted(each.token for each in found.neighbors) == ["w0", "w1"]
    for each in found.neighbors:
        assert each.by_signature == each.by_embedding
        assert len(each.by_signature) == 8
        assert each.token not in each.by_signature


def test_the_whole_table_and_the_counted_rows_say_the_same(counted: CountedOrders) -> None:
    table = np.random.default_rng(3).normal(size=(VOCABULARY, 5))
    assert StairTrack(counted).record(0, table) == StairTrack(counted).record_rows(0, table[counted.signatures.tokens].astype(np.float32))
    half = table.astype(np.float16)
    assert StairTrack(counted).record(0, half)["order_0"] == pytest.approx(StairTrack(counted).record(0, table)["order_0"], abs=0.01)


def test_a_record_gives_figures_for_a_log(counted: CountedOrders) -> None:
    told = StairTrack(counted).record_rows(5, toward(counted, 1.0))
    assert set(told) == {"order_0", "order_0_null_sd", "order_1", "order_1_null_sd", "norm_frequency"}
    assert told["order_0"] == pytest.approx(1.0, abs=1e-6)


def test_bad_records_are_refused_and_leave_nothing(counted: CountedOrders) -> None:
    track = recorded(counted, [0.0, 0.5])
    with pytest.raises(InputError, match="step is 10 after 10; expected rising steps"):
        track.record_rows(10, toward(counted, 0.5))
    with pytest.raises(InputError, match=r"the table has shape \(7, 3\); expected \(30, D\), one row for each id"):
        track.record(20, np.ones((7, 3)))
    with pytest.raises(InputError, match=r"rows have shape \(7, 3\); expected \(20, D\)"):
        track.record_rows(20, np.ones((7, 3)))
    bad = toward(counted, 0.5)
    bad[2, 1] = np.inf
    with pytest.raises(InputError, match="the embedding of token '.*' holds a value that is not finite"):
        track.record_rows(20, bad)
    with pytest.raises(InputError, match="the table has 4 columns, and at step 0 it had 30"):
        track.record_rows(20, np.ones((20, 4)))
    assert track.steps == (0, 10)
    with pytest.raises(InputError, match="1 step was recorded; expected at least 2"):
        recorded(counted, [0.0]).report()


def test_a_late_loss_is_kept_for_the_last_record(counted: CountedOrders) -> None:
    track = StairTrack(counted)
    track.record_rows(0, toward(counted, 0.0))
    track.tell(7, loss=3.0)
    track.tell(8, loss=2.0)
    track.record_rows(10, toward(counted, 0.1))
    track.tell(9, loss=1.0)
    assert track.report().loss == (3.0, None)


def test_copies_are_thinned_and_the_peak_stays_near(counted: CountedOrders, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stair_track, "_MOST_KEPT", 10 * counted.signatures.tokens.size * 30)
    track = recorded(counted, [0.0, 0.9, 1.0, *([0.5] * 60)])
    assert len(track._kept) <= 10
    found = track.report()
    assert found.maps[0].step == 0
    assert found.maps[-1].step == 620
    assert len(found.alignment["0"]) == 63


def test_missing_steps_are_gaps(counted: CountedOrders) -> None:
    track = StairTrack(counted)
    for at, step in enumerate((0, 10, 20, 60, 70, 80)):
        track.record_rows(step, toward(counted, 0.1 * at))
    assert track.report().integrity.gaps == ((20, 60),)
