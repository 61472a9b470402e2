"""Copies, strangers and mixed-up checkpoints are refused by name; honest trainings of every kind are let through."""

import re
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from safetensors.numpy import save_file

from normwise.core.errors import InputError
from normwise.data import series_gate
from normwise.data.checkpoint_series import Checkpoint, open_series
from normwise.data.series_gate import check_series
from normwise.data.table_digests import NARROW, TableDigest, fits, rounded

TOKENS, WIDTH = 60, 16


def series_of(tables, steps=None):
    """Arrays stand in for files: both give rows by slices and by numbers."""
    steps = [100 * at for at in range(1, len(tables) + 1)] if steps is None else steps
    return [Checkpoint(step, Path(f"run/step{step}"), "emb", table) for step, table in zip(steps, tables, strict=True)]


def refuse(tables, match, steps=None):
    with pytest.raises(InputError, match=match) as caught:
        check_series(series_of(tables, steps))
    return str(caught.value)


def left_out(message):
    found = re.search(r"--leave-out ([\d,]+)", message)
    return [] if found is None else [int(step) for step in found[1].split(",")]


def train(seed, looks, *, optimizer="sgd", rate=1.0, schedule="constant", init=0.3, tokens=TOKENS):
    """A bigram model, next-token softmax over an embedding and an unembedding, in batches of 16: its embedding at some steps."""
    law = np.random.default_rng(99)
    frequency = 1.0 / np.arange(1, tokens + 1)
    logits = law.normal(size=(tokens, 4)) @ law.normal(size=(4, tokens)) + np.log(frequency)
    following = np.cumsum(np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True), axis=1)
    random = np.random.default_rng([seed, 7])
    weights = [init * random.normal(size=(tokens, WIDTH)) for _ in range(2)]
    moments = [(np.zeros_like(each), np.zeros_like(each)) for each in weights]
    found, last = [], max(looks)
    for step in range(last + 1):
        if step in looks:
            found.append(weights[0].astype(np.float32))
        inputs = random.choice(tokens, 16, p=frequency / frequency.sum())
        labels = np.minimum((following[inputs] < random.random((16, 1))).sum(axis=1), tokens - 1)
        scores = weights[0][inputs] @ weights[1].T
        wrong = np.exp(scores - scores.max(axis=1, keepdims=True))
        wrong /= wrong.sum(axis=1, keepdims=True)
        wrong[np.arange(16), labels] -= 1.0
        gradients = [np.zeros_like(weights[0]), wrong.T @ weights[0][inputs] / 16]
        np.add.at(gradients[0], inputs, wrong @ weights[1] / 16)
        pace = rate * {"constant": 1.0, "decayed": 1.0 - step / last, "warm-up": min(1.0, (step + 1) / (0.1 * last))}[schedule]
        for at, gradient in enumerate(gradients):
            if optimizer == "adam":
                first, second = moments[at]
                moments[at] = first, second = 0.9 * first + 0.1 * gradient, 0.99 * second + 0.01 * gradient**2
                gradient = first / (1 - 0.9 ** (step + 1)) / (np.sqrt(second / (1 - 0.99 ** (step + 1))) + 1e-8)
            weights[at] = weights[at] - pace * gradient
    return np.stack(found)


LOG = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256)
EVEN = tuple(range(0, 401, 40))
# Optimizer, rate, schedule, checkpoints.
TRAININGS = {
    "log steps": ("sgd", 1.0, "constant", LOG),
    "warm-up": ("sgd", 1.0, "warm-up", EVEN),
    "decayed to 0": ("adam", 0.02, "decayed", EVEN),
    "swinging": ("adam", 0.1, "constant", EVEN),
    "two": ("sgd", 1.0, "decayed", (0, 400)),
    "three": ("adam", 0.02, "constant", (0, 200, 400)),
}


@pytest.fixture(scope="module")
def trainings():
    return {
        name: [train(seed, looks, optimizer=optimizer, rate=rate, schedule=schedule) for seed in range(3)]
        for name, (optimizer, rate, schedule, looks) in TRAININGS.items()
    }


@pytest.mark.parametrize("name", TRAININGS)
def test_honest_trainings_pass_in_full_and_in_half_precision(trainings, name):
    for tables in trainings[name]:
        for stored in (tables, tables.astype(np.float16), tables.astype(np.float64)):
            assert check_series(series_of(stored, TRAININGS[name][3])).duplicates == ()


@given(kind=st.sampled_from(("walk", "swarm", "line", "sparse", "slowing", "doubling")), seed=st.integers(0, 300), count=st.integers(2, 12))
@settings(max_examples=60, deadline=None)
def test_honest_ways_pass(kind, seed, count):
    random = np.random.default_rng(seed)
    init, moves = random.normal(size=(TOKENS, WIDTH)), 0.05 * random.normal(size=(count, TOKENS, WIDTH))
    if kind == "sparse":
        moves *= random.random((count, TOKENS, 1)) < 0.1
        moves[:, 0] += 1e-3
    if kind in ("slowing", "doubling"):
        moves *= (0.6 if kind == "slowing" else 1.5) ** np.arange(count)[:, None, None]
    if kind == "line":
        moves = np.repeat(moves[:1], count, axis=0) + 0.1 * moves
    tables = init + (moves if kind == "swarm" else moves.cumsum(axis=0))
    found = check_series(series_of(tables.astype(np.float32)))
    assert (found.duplicates, found.gaps) == ((), ())


def test_copies_are_named_with_steps_that_keep_the_last_of_each_group(trainings):
    tables = trainings["log steps"][0].copy()
    tables[[1, 3]], tables[5] = tables[9], tables[6]
    message = refuse(tables, r"steps 1 \(step1\), 4 \(step4\), 256 \(step256\) hold one table; steps 16 .*, 32 \(step32\) hold one", LOG)
    assert left_out(message) == [1, 4, 16]
    keep = [at for at, step in enumerate(LOG) if step not in left_out(message)]
    check_series(series_of(tables[keep], [LOG[at] for at in keep]))


def test_many_groups_of_copies_are_counted():
    tables = np.repeat(np.random.default_rng(0).normal(size=(10, 8, 4)), 2, axis=0)
    message = refuse(tables, "and 2 more such groups")
    assert left_out(message) == list(range(100, 2001, 200))


def test_a_frozen_embedding_looks_like_copies():
    refuse(np.ones((4, 8, 4)), "All 4 checkpoints are copies: the embedding was frozen, or one step was saved under every name")


@pytest.mark.parametrize("kind", NARROW)
@pytest.mark.parametrize("cast_up", [True, False])
def test_a_copy_in_a_narrower_type_is_found(trainings, kind, cast_up):
    tables = list(trainings["log steps"][0].astype(np.float64) * (1.0 + 1e-12))
    narrow = rounded(tables[6], kind)
    tables[2] = narrow.astype(np.float16) if kind == "float16" and not cast_up else narrow.astype(np.float64 if cast_up else np.float32)
    assert left_out(refuse(tables, rf"steps 2 .*, 32 .* hold one table \(up to rounding to {kind}\)", LOG)) == [2]


@pytest.mark.parametrize("kind", NARROW)
def test_near_tables_that_become_one_by_rounding_are_no_copies(trainings, kind):
    """Neither is the rounded one; another checkpoint is of the narrow type, so that rounding is looked at."""
    tables = list(trainings["log steps"][0].astype(np.float64))
    narrow = rounded(tables[1], kind).astype(np.float64)
    tables[1], tables[2], tables[9] = narrow * (1.0 + 1e-9), narrow * (1.0 - 1e-9), rounded(tables[9], kind)
    assert np.array_equal(rounded(tables[1], kind), rounded(tables[2], kind))
    check_series(series_of(tables, LOG))
    tables[1] = narrow
    assert left_out(refuse(tables, r"steps 1 .*, 2 .* hold one table \(up to rounding to", LOG)) == [1]


def test_a_table_that_overflows_the_narrow_type_is_no_copy():
    first = np.random.default_rng(1).normal(size=(TOKENS, WIDTH)).astype(np.float32)
    first[3, 3] = 1e5
    second = rounded(first, "float16")
    second[3, 3] = 65504.0
    check_series(series_of([first, second]))


@pytest.mark.parametrize("at", [0, 4, 9])
@pytest.mark.parametrize("name", ["log steps", "decayed to 0", "swinging"])
def test_a_checkpoint_of_another_seed_is_named(trainings, name, at):
    tables, steps = trainings[name][0].copy(), TRAININGS[name][3]
    tables[at] = trainings[name][1][at]
    message = refuse(tables, f"the coordinates of step {steps[at]} .*have nothing in common with .*another training", steps)
    assert left_out(message) == [steps[at]]


def test_two_of_another_training_are_both_named(trainings):
    tables = trainings["swinging"][0].copy()
    tables[[3, 4]], tables[8] = trainings["swinging"][1][[3, 4]], trainings["swinging"][2][8]
    assert left_out(refuse(tables, "another training", EVEN)) == [120, 160, 320]


def test_two_checkpoints_of_two_trainings_are_noted(trainings):
    first, second = trainings["two"][:2]
    found = check_series(series_of([first[0], second[1]]))
    assert found.notes[0].startswith("the coordinates of steps 100 and 200 have nothing in common: they are of two trainings, or weight")


def test_three_checkpoints_of_three_trainings_are_refused(trainings):
    refuse([trainings["three"][seed][seed] for seed in range(3)], "Give checkpoints of one training")


def test_an_init_that_was_forgotten_is_no_stranger():
    """Grown a thousandfold: too little of the init is left to be seen, and nothing is told."""
    random = np.random.default_rng(4)
    grown = random.normal(size=(TOKENS, WIDTH))
    check_series(series_of([1e-3 * random.normal(size=(TOKENS, WIDTH)), grown, 1.1 * grown, 1.2 * grown]))


@given(seed=st.integers(0, 300), count=st.integers(5, 14), data=st.data())
@settings(max_examples=60, deadline=None)
def test_exchanged_checkpoints_are_named(seed, count, data):
    random = np.random.default_rng(seed)
    way = random.normal(size=(TOKENS, WIDTH)) + 0.05 * random.normal(size=(TOKENS, WIDTH)) * np.arange(count)[:, None, None]
    tables = way + 0.005 * random.normal(size=way.shape)
    a = data.draw(st.integers(0, count - 2))
    b = data.draw(st.integers(a + 1, count - 1))
    # The first and the last exchanged are, for five tables, the others exchanged in a reversed series.
    if (a, b) == (0, count - 1):
        b -= 1
    tables[[a, b]] = tables[[b, a]]
    message = refuse(tables, "look exchanged: from their neighbors they lie")
    if count >= 8:
        assert left_out(message) == [100 * (a + 1), 100 * (b + 1)]


def test_figures_of_an_exchange_are_mean_distances():
    init = np.random.default_rng(5).normal(size=(TOKENS, WIDTH))
    move = np.zeros_like(init)
    move[0, 0] = 1.0
    tables = [init + place * move for place in (0, 1, 5, 3, 4, 2, 6, 7)]
    refuse(tables, r"300 .* and 600 .*they lie 3 and 3 away on average, and 1 and 1 in each other's place")


def test_one_that_shares_coordinates_but_is_far_from_its_neighbors_is_named():
    random = np.random.default_rng(6)
    init, move = random.normal(size=(2, TOKENS, WIDTH))
    tables = init + 0.02 * move * np.arange(8)[:, None, None]
    tables[5] += 0.8 * random.normal(size=(TOKENS, WIDTH))
    message = refuse(
        tables, "step 600 .* does not lie between its neighbors: it is 25.2 from step 500 and 25.2 from step 700, which are 1.27"
    )
    assert left_out(message) == [600]


def test_ends_that_cannot_be_told_are_noted():
    """Noise around an optimum, and the optimum itself when the learning rate is 0: as long a way as with two tables exchanged."""
    random = np.random.default_rng(7)
    optimum = random.normal(size=(400, 40))
    tables = optimum + 0.1 * random.normal(size=(6, 400, 40)) * np.array([1, 1, 1, 1, 1, 0])[:, None, None]
    found = check_series(series_of(tables))
    assert found.notes[0].startswith("steps 500 and 600 may stand in each other's place")


def test_gaps_and_jumps_are_told():
    random = np.random.default_rng(8)
    init, move = random.normal(size=(2, TOKENS, WIDTH))
    place = np.array([0.0, 1.0, 2.0, 42.0, 43.0, 44.0])
    found = check_series(series_of(init + 0.01 * place[:, None, None] * move, [100, 200, 300, 400, 500, 800]))
    assert (found.gaps, found.jumps) == (((500, 800),), ((300, 400),))
    assert "between steps 500 and 800 checkpoints seem to be missing" in found.notes[0]
    assert "from step 300 to 400 the table moves 40 times as far a step" in found.notes[1]


def test_values_that_are_no_numbers_are_named(trainings):
    tables = trainings["log steps"][0].copy()
    tables[4, 7, 3] = -np.inf
    refuse(tables, r"run/step8: row 7 \(from 0\) of emb holds a value that is not finite, -inf: .*--leave-out 8$", LOG)
    refuse([np.ones((3, 3)), np.diag([1.0, 1e200, 1.0])], r"step200: row 1 \(from 0\) of emb holds 1e\+200")
    refuse([np.ones((3, 3))], "a series of 1 checkpoint has no order to check; expected at least 2")


@pytest.mark.parametrize("values", [16, 100, 1000])
def test_blocks_change_nothing(trainings, monkeypatch, values):
    tables = trainings["log steps"][0].copy()
    tables[2] = rounded(tables[7], "float16")
    whole = refuse(tables, "float16", LOG)
    monkeypatch.setattr(series_gate, "_BLOCK_VALUES", values * 10)
    assert refuse(tables, "float16", LOG) == whole


def test_distances_of_nearly_equal_tables_are_exact():
    random = np.random.default_rng(9)
    tables = random.normal(size=(1, TOKENS, WIDTH)) + np.array([1e4, 1.0, *(1e-7 * np.arange(6))])[:, None, None] * random.normal(
        size=(TOKENS, WIDTH)
    )
    _, distances = series_gate._read(series_of(tables))
    flat = tables.reshape(len(tables), -1)
    np.testing.assert_allclose(distances, np.linalg.norm(flat[:, None] - flat, axis=2), rtol=1e-4)


def test_files_are_read_as_arrays_are(tmp_path, trainings):
    tables = trainings["log steps"][0].copy()
    tables[5] = rounded(tables[8], "float16")
    for step, table in zip(LOG, tables, strict=True):
        (tmp_path / f"step{step}").mkdir()
        save_file({"wte.weight": table.astype(np.float16) if step == 16 else table}, tmp_path / f"step{step}" / "model.safetensors")
    with pytest.raises(InputError, match=r"steps 16 \(step16\), 128 \(step128\) hold one table \(up to rounding to float16\)"):
        check_series(open_series(tmp_path))
    check_series(open_series(tmp_path, leave_out=[16]))


def test_rounding_is_that_of_torch():
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(10)
    values = (random.normal(size=20_000) * 10.0 ** random.integers(-42, 38, size=20_000)).astype(np.float32)
    values = np.concatenate([values, np.array([0.0, -0.0, 1 + 2**-8, 1 + 3 * 2**-8, 65519.0, 65520.0, 3.4e38], dtype=np.float32)])
    for kind, own in (("bfloat16", torch.bfloat16), ("float16", torch.float16)):
        expected = torch.from_numpy(values).to(own).float().numpy()
        np.testing.assert_array_equal(rounded(values, kind), expected)
        assert fits(expected[np.isfinite(expected)], kind)


@given(seed=st.integers(0, 200), cut=st.integers(1, 11), kind=st.sampled_from(NARROW), from_row=st.integers(0, 12))
@settings(max_examples=60, deadline=None)
def test_a_digest_is_one_of_values_not_of_blocks(seed, cut, kind, from_row):
    """The rows before `from_row` are of the narrow type, so that the two hashes part at different places."""
    table = np.random.default_rng(seed).normal(size=(12, 3))
    table[:from_row] = rounded(table[:from_row], kind)
    narrow = rounded(table, kind)
    whole, parts, other = (TableDigest(table.shape, [kind]) for _ in range(3))
    whole.update(table)
    for rows in (table[:cut], table[cut:]):
        parts.update(rows)
    other.update(narrow)
    assert (whole.exact, whole.narrow(kind)) == (parts.exact, parts.narrow(kind))
    assert whole.narrow(kind) == other.narrow(kind) == other.exact
    assert other.fits(kind)
    assert whole.fits(kind) == (whole.exact == other.exact) == np.array_equal(table, narrow)
