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
        track.record_rows(10 * at, toward(counted, part, seed=at), loss=5.0 - at)
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
    assert StairTrack(counted).record(0, table) == StairTrack(counted).record_rows(0, table[counted.signatures.tokens])
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


def test_tables_of_any_kind_are_read(counted: CountedOrders) -> None:
    torch = pytest.importorskip("torch")
    table = np.random.default_rng(3).normal(size=(VOCABULARY, 5)).astype(np.float32)
    plain = StairTrack(counted).record(0, table)
    assert StairTrack(counted).record(0, torch.nn.Parameter(torch.as_tensor(table))) == plain
    assert StairTrack(counted).record(0, table.tolist())["order_0"] == pytest.approx(plain["order_0"], abs=1e-6)
    assert StairTrack(counted).record(0, np.asfortranarray(table)) == plain
    assert StairTrack(counted).record(0, torch.as_tensor(table).bfloat16())["order_0"] == pytest.approx(plain["order_0"], abs=0.02)
    # Beyond float32, and yet finite.
    assert StairTrack(counted).record(0, 1e100 * table.astype(np.float64))["order_0"] == pytest.approx(plain["order_0"], abs=1e-6)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"step": 0.5}, "step is 0.5; expected a whole number of at least 0"),
        ({"step": True}, "step is True"),
        ({"step": -1}, "step is -1"),
        ({"loss": "low"}, "loss is 'low'; expected a number"),
        ({"loss": 10**400}, "loss is .*; expected a number"),
        ({"accuracy": 7.0}, "accuracy is 7; expected 0 to 1"),
        ({"table": np.ones((VOCABULARY, 2), dtype=complex)}, "the table is of type complex128; expected real numbers"),
        ({"table": np.ones((VOCABULARY, 2), dtype=bool)}, "the table is of type bool"),
        ({"table": [[1.0], [1.0, 2.0]]}, "the table is no array of numbers"),
        ({"table": "E"}, "the table is of type"),
    ],
)
def test_what_cannot_be_recorded_is_refused_at_once(counted: CountedOrders, arguments: dict[str, object], message: str) -> None:
    track = StairTrack(counted)
    with pytest.raises(InputError, match=message):
        track.record(**{"step": 0, "table": np.eye(VOCABULARY)} | arguments)  # pyright: ignore[reportArgumentType]
    assert track.steps == ()


def test_a_loss_with_a_gradient_does_not_spoil_the_report(counted: CountedOrders) -> None:
    torch = pytest.importorskip("torch")
    track = StairTrack(counted)
    for step in range(3):
        track.record_rows(step, toward(counted, 0.1 * step), loss=torch.tensor(2.0, requires_grad=True))
    assert track.report().loss == (2.0, 2.0, 2.0)


def test_equal_tables_are_told(counted: CountedOrders) -> None:
    track = StairTrack(counted)
    for step in range(4):
        track.record_rows(step, toward(counted, 0.0))
    found = track.report()
    assert found.integrity.duplicates == ((0, 1), (0, 2), (0, 3))
    assert any("equal to the last bit, and so are 2 other pairs" in note for note in found.notes)


def test_two_steps_are_too_few_for_a_rise_and_that_is_told(counted: CountedOrders) -> None:
    assert any("hardly one can be seen" in note for note in recorded(counted, [0.0, 0.9]).report().notes)


@pytest.fixture(scope="module")
def without_orders(tmp_path_factory: pytest.TempPathFactory) -> CountedOrders:
    """Text whose tokens are drawn one by one: their laws are equal, their counts are not."""
    chances = 1.0 / np.arange(1, 121)
    ids = np.random.default_rng(0).choice(120, p=chances / chances.sum(), size=30_000).astype(np.uint16)
    path = tmp_path_factory.mktemp("drawn") / "ids.npy"
    np.save(path, ids)
    return count_orders(open_token_files(path, TokenReading(vocabulary=120)), OrderCounting(orders=(0,)), Counting(workers=1))


def test_an_embedding_of_frequency_is_not_called_order_0(without_orders: CountedOrders) -> None:
    random = np.random.default_rng(1)
    noise, direction = random.normal(size=(without_orders.signatures.tokens.size, 64)), random.normal(size=64)
    track = StairTrack(without_orders)
    for step in range(0, 101, 10):
        track.record_rows(step, noise + step / 100.0 * 0.15 * np.log(without_orders.signatures.counts + 1.0)[:, None] * direction)
    found = track.report()
    assert found.stairs[0].onset is not None
    assert found.verdict.label == "frequency-only"
    assert "That goes with how often tokens occur" in found.verdict.text
