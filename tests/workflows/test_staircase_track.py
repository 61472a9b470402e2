"""Checkpoints on disk against a corpus: what is found, and what is refused with the right names."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from stair_series import VOCABULARY, bigram_chain, ids_of, save_series, tables_of

from normwise.core.errors import InputError
from normwise.core.staircase_records import TrackReport
from normwise.workflows.staircase_predict import staircase_predict
from normwise.workflows.staircase_track import CorpusReading, count_signatures, staircase_track

STEPS = tuple(range(0, 400, 20))
HERE = CorpusReading(orders=(0, 1), window=4, workers=1)


@pytest.fixture(scope="module")
def trained() -> tuple[np.ndarray, list[np.ndarray], list[float]]:
    ids = ids_of(bigram_chain())
    return (ids, *tables_of(ids, STEPS))


@pytest.fixture
def world(tmp_path: Path, trained: tuple[np.ndarray, list[np.ndarray], list[float]]) -> tuple[Path, Path]:
    np.save(tmp_path / "ids.npy", trained[0])
    return save_series(tmp_path / "run", STEPS, trained[1]), tmp_path / "ids.npy"


def test_a_training_from_a_small_init_has_a_stair_of_order_0(world: tuple[Path, Path]) -> None:
    found = staircase_track(*world, HERE)
    assert found.steps == STEPS
    assert found.settings.table == "model.embed_tokens.weight"
    assert found.settings.vocabulary == VOCABULARY
    assert found.stairs[0].onset is not None
    assert 0 < found.stairs[0].onset < STEPS[-1]
    assert found.verdict.label in ("no-decay", "late-peak", "early-peak")
    assert found.alignment["0"][0] == pytest.approx(0.0, abs=0.15)
    last = found.alignment["0"][-1]
    assert last is not None
    assert last > 0.5
    assert found.integrity.model_dump() == {"duplicates": (), "gaps": (), "jumps": ()}
    # A chain has no memory: order 1 has nothing of its own.
    gains = {row.order: row for row in found.gains if row.step == STEPS[-1]}
    assert gains[0].gain is not None
    assert gains[0].gain > 0.2
    assert gains[1].gain is not None
    assert gains[1].gain < 0.1
    assert "order 1 adds" in found.verdict.text
    assert TrackReport.from_json(found.to_json()) == found
    assert set(json.loads(found.to_json())) >= {
        *("steps", "loss", "accuracy", "alignment", "null", "stairs", "stairs_by_seed", "integrity", "verdict"),
    }


def test_losses_of_the_trainer_are_told(world: tuple[Path, Path], trained: tuple[np.ndarray, list[np.ndarray], list[float]]) -> None:
    history = [{"step": step, "loss": loss} for step, loss in zip(STEPS, trained[2], strict=True)]
    state = {"global_step": STEPS[-1], "log_history": history}
    (world[0] / f"checkpoint-{STEPS[-1]}" / "trainer_state.json").write_text(json.dumps(state), encoding="utf-8")
    found = staircase_track(*world, HERE)
    assert found.loss == pytest.approx(trained[2])
    assert found.accuracy == (None,) * len(STEPS)


def test_half_precision_tables_say_nearly_the_same(
    tmp_path: Path, world: tuple[Path, Path], trained: tuple[np.ndarray, list[np.ndarray], list[float]]
) -> None:
    half = staircase_track(save_series(tmp_path / "half", STEPS, trained[1], dtype="float16"), world[1], HERE)
    full = staircase_track(*world, HERE)
    assert half.alignment["0"] == pytest.approx(full.alignment["0"], abs=0.01)


def table_in(folder: Path, step: int) -> Path:
    return folder / f"checkpoint-{step}" / "model.safetensors"


def test_planted_copies_are_refused_by_name_and_can_be_left_out(world: tuple[Path, Path]) -> None:
    shutil.copy(table_in(world[0], 380), table_in(world[0], 100))
    with pytest.raises(InputError) as told:
        staircase_track(*world, HERE)
    assert "checkpoint-100" in str(told.value)
    assert "checkpoint-380" in str(told.value)
    assert "--leave-out" in str(told.value)
    found = staircase_track(*world, HERE, leave_out=(100,))
    assert 100 not in found.steps
    assert found.integrity.gaps == ((80, 120),)
    assert any("80" in note and "120" in note for note in found.notes)


@pytest.mark.parametrize(("one", "other"), [(200, 220), (0, 20), (360, 380), (60, 300)])
def test_a_swapped_pair_is_refused_by_name(world: tuple[Path, Path], one: int, other: int) -> None:
    first, second = load_file(table_in(world[0], one)), load_file(table_in(world[0], other))
    save_file(first, table_in(world[0], other))
    save_file(second, table_in(world[0], one))
    with pytest.raises(InputError) as told:
        staircase_track(*world, HERE)
    assert f"checkpoint-{one}" in str(told.value)
    assert f"checkpoint-{other}" in str(told.value)


def test_a_copy_of_which_a_row_was_changed_is_refused(world: tuple[Path, Path]) -> None:
    tensors = load_file(table_in(world[0], 380))
    tensors["model.embed_tokens.weight"][3] *= np.float32(1.0001)
    save_file(tensors, table_in(world[0], 100))
    with pytest.raises(InputError, match=r"steps 100 \(checkpoint-100\) and 380 \(checkpoint-380\) are .* apart.*--leave-out 100"):
        staircase_track(*world, HERE)


def test_counts_that_are_kept_can_be_thrown_away(tmp_path: Path, world: tuple[Path, Path]) -> None:
    kept = CorpusReading(orders=(0,), workers=1, vocabulary=VOCABULARY, folder=tmp_path / "counts")
    first = count_signatures(world[1], kept)
    with pytest.raises(InputError, match="--recount"):
        count_signatures(world[1], kept)
    again = CorpusReading(orders=(0,), workers=1, vocabulary=VOCABULARY, folder=tmp_path / "counts", recount=True)
    assert count_signatures(world[1], again).positions == first.positions
    with pytest.raises(InputError, match="no folder for them is named: name one"):
        CorpusReading(resume=True)


def test_ids_without_an_end_are_told_to_be_one_document(world: tuple[Path, Path]) -> None:
    found = count_signatures(world[1], CorpusReading(vocabulary=VOCABULARY, workers=1))
    assert any("no id ends a document in these files" in note for note in found.notes)
    for quiet in (CorpusReading(vocabulary=VOCABULARY, workers=1, window=4), CorpusReading(vocabulary=VOCABULARY, workers=1, orders=(0,))):
        assert not any("ends a document" in note for note in count_signatures(world[1], quiet).notes)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"orders": (True,)}, "an order is True; expected a whole number"),
        ({"orders": (0.0,)}, "an order is 0.0; expected a whole number"),
        ({"orders": 5}, "orders is 5; expected a tuple"),
        ({"words": "one,two"}, "words is 'one,two'; expected a tuple"),
        ({"tokens": "7"}, "tokens is '7'; expected a whole number"),
        ({"window": 2**63}, "window is .*; expected a whole number, 16,777,216 at most"),
        ({"end": 2.5}, "end is 2.5"),
        ({"seed": -1}, "seed is -1; expected a whole number of at least 0"),
        ({"vocabulary": 10**10}, "vocabulary is .*; expected a whole number of at least 1, 16,777,216 at most"),
        ({"workers": "x"}, "workers is 'x'"),
    ],
)
def test_bad_settings_are_refused(settings: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        CorpusReading(**settings)  # pyright: ignore[reportArgumentType]


def test_leave_out_is_of_steps(world: tuple[Path, Path]) -> None:
    with pytest.raises(InputError, match="leave_out is '20'; expected steps, such as"):
        staircase_track(*world, HERE, leave_out="20")  # pyright: ignore[reportArgumentType]


def test_drawn_uniform_ids_predict_no_stair(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.random.default_rng(0).integers(0, 50, size=40_000).astype(np.uint16))
    found = staircase_predict(tmp_path / "ids.npy", CorpusReading(vocabulary=50, workers=1))
    assert not found.predicted.exists
    assert "no larger than what counting 40,000 tokens of a uniform law gives" in found.text


def test_a_table_of_another_vocabulary_is_told_before_anything_is_counted(world: tuple[Path, Path]) -> None:
    ids = np.load(world[1])
    ids[7] = VOCABULARY + 2
    np.save(world[1], ids)
    with pytest.raises(InputError, match=f"{VOCABULARY + 2}"):
        staircase_track(*world, HERE)
    with pytest.raises(InputError, match="vocabulary is 41, and the table has 40 rows; leave it out"):
        staircase_track(*world, CorpusReading(vocabulary=41))


def test_a_tokenizer_that_is_not_the_tables_is_refused(tmp_path: Path, world: tuple[Path, Path]) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{number}": number for number in range(20)}
    small = Tokenizer(models.WordLevel(words, unk_token="w0"))
    small.pre_tokenizer = pre_tokenizers.Whitespace()
    small.save(str(tmp_path / "tokenizer.json"))
    (tmp_path / "text.txt").write_text("w1 w2 w3\n" * 50, encoding="utf-8")
    with pytest.raises(InputError, match=r"tokenizer.json has 20 tokens, and the table 40 rows: it is not this table's tokenizer"):
        staircase_track(world[0], tmp_path / "text.txt", CorpusReading(tokenizer=tmp_path / "tokenizer.json"))


def test_text_is_read_by_the_tokenizer_beside_the_checkpoints(tmp_path: Path, world: tuple[Path, Path]) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    names = ["Monday", "Tuesday", "one", "two", *(f"w{number}" for number in range(4, VOCABULARY))]
    own = Tokenizer(models.WordLevel({name: number for number, name in enumerate(names)}, unk_token="w39"))
    own.pre_tokenizer = pre_tokenizers.Whitespace()
    own.save(str(world[0] / f"checkpoint-{STEPS[-1]}" / "tokenizer.json"))
    ids = np.load(world[1])
    (tmp_path / "text.txt").write_text("\n".join(" ".join(names[token] for token in row) for row in ids.reshape(-1, 100)), encoding="utf-8")
    found = staircase_track(world[0], tmp_path / "text.txt", HERE)
    assert found.settings.corpus_tokens == ids.size
    assert {each.token for each in found.neighbors} == {"Monday", "Tuesday", "one", "two"}
    assert all(len(each.by_embedding) == 8 for each in found.neighbors)
    asked = staircase_track(world[0], tmp_path / "text.txt", CorpusReading(words=("w7",), workers=1, orders=(0,)))
    assert [each.token for each in asked.neighbors] == ["w7"]
    with pytest.raises(InputError, match="words names 'banana', which is no token of"):
        staircase_track(world[0], tmp_path / "text.txt", CorpusReading(words=("banana",), workers=1))
    some = staircase_track(world[0], tmp_path / "text.txt", CorpusReading(words=("banana", "w9"), workers=1, orders=(0,)))
    assert [each.token for each in some.neighbors] == ["w9"]
    assert "no token of their own have 'banana': their neighbors are not told" in some.notes
    assert any("each line of the text is a document" in note for note in some.notes)
    with pytest.raises(InputError, match=r"text.txt is text, whose tokens a tokenizer makes: name its tokenizer.json \(--tokenizer\)"):
        count_signatures(str(tmp_path / "text.txt"), CorpusReading(vocabulary=VOCABULARY))


def test_small_corpora_and_windows_are_refused(tmp_path: Path, world: tuple[Path, Path]) -> None:
    np.save(tmp_path / "short.npy", np.array([1, 2, 3, 4, 1, 2], dtype=np.uint16))
    with pytest.raises(InputError, match="window"):
        staircase_track(world[0], tmp_path / "short.npy", CorpusReading(orders=(0, 1), window=50, workers=1))
    found = staircase_track(world[0], tmp_path / "short.npy", CorpusReading(orders=(0,), workers=1))
    assert found.settings.tokens == 4
    assert any("36 of 40 tokens of the vocabulary are nowhere in the corpus" in note for note in found.notes)


def test_broken_and_foreign_checkpoints_are_named(world: tuple[Path, Path]) -> None:
    path = table_in(world[0], 200)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match="checkpoint-200"):
        staircase_track(*world, HERE)
    save_file({"state.exp_avg.weight": np.ones((VOCABULARY, 16), np.float32)}, path)
    with pytest.raises(InputError, match="checkpoint-200.*optimizer's state"):
        staircase_track(*world, HERE)
    table = np.ones((VOCABULARY, 16), np.float32)
    table[3, 2] = np.nan
    save_file({"model.embed_tokens.weight": table}, path)
    with pytest.raises(InputError, match="checkpoint-200.*row 3"):
        staircase_track(*world, HERE)


def test_a_page_is_written(tmp_path: Path, world: tuple[Path, Path]) -> None:
    found = staircase_track(*world, HERE, report=tmp_path / "page.html")
    assert found.report == str(tmp_path / "page.html")
    assert found.verdict.label in (tmp_path / "page.html").read_text(encoding="utf-8")
    with pytest.raises(InputError, match="exists already"):
        staircase_track(*world, HERE, report=tmp_path / "page.html")


def test_what_a_glob_matches_decides_whether_it_is_text(tmp_path: Path, world: tuple[Path, Path]) -> None:
    (tmp_path / "tokens").mkdir()
    shutil.copy(world[1], tmp_path / "tokens" / "ids.npy")
    found = count_signatures(str(tmp_path / "tokens" / "*"), CorpusReading(vocabulary=VOCABULARY, orders=(0,)))
    assert found.positions == np.load(world[1]).size
    (tmp_path / "tokens" / "text.txt").write_text("a b", encoding="utf-8")
    with pytest.raises(InputError, match="is text, whose tokens a tokenizer makes"):
        count_signatures(str(tmp_path / "tokens" / "*"), CorpusReading(vocabulary=VOCABULARY, orders=(0,)))
    (tmp_path / "pairs.jsonl").write_text("{}", encoding="utf-8")
    with pytest.raises(InputError, match=r"files named .jsonl are not read as tokens"):
        count_signatures(tmp_path / "pairs.jsonl", CorpusReading(vocabulary=VOCABULARY))


def test_counted_signatures_carry_names_and_settings(tmp_path: Path, world: tuple[Path, Path]) -> None:
    found = count_signatures(world[1], CorpusReading(vocabulary=VOCABULARY, orders=(0, 2), tokens=10, window=3, workers=1))
    assert found.signatures.orders == (0, 2)
    assert found.window == 3
    assert found.names == {}
    with pytest.raises(InputError, match="words names 'one', and the tokens have no names: give their tokenizer"):
        count_signatures(world[1], CorpusReading(vocabulary=VOCABULARY, words=("one",), workers=1))
    with pytest.raises(InputError, match="vocabulary is not told"):
        count_signatures(world[1])


def test_the_forecast_is_the_growth_of_a_real_training(world: tuple[Path, Path]) -> None:
    scale, rate = 1e-9, 4.0
    found = staircase_predict(world[1], CorpusReading(vocabulary=VOCABULARY, workers=1), init_scale=scale, learning_rate=rate)
    early = (60, 140)
    tables, _ = tables_of(np.load(world[1]), early, rate=rate, scale=scale)
    grown = np.log(np.linalg.svd(tables[1], compute_uv=False)[0] / np.linalg.svd(tables[0], compute_uv=False)[0])
    # Euler's steps grow a little slower than the flow: log(1 + x) for x.
    expected = (early[1] - early[0]) * np.log1p(found.growth_rates[0] * rate)
    assert grown == pytest.approx(expected, rel=0.03)
    assert found.steps[0] == pytest.approx(np.log(1.0 / scale) / (found.growth_rates[0] * rate))
    assert found.predicted.exists
    assert f"predicts order 0 at step {found.steps[0]:,.0f}" in found.text


def test_a_uniform_corpus_has_no_stair_to_predict(tmp_path: Path) -> None:
    np.save(tmp_path / "ids.npy", np.array([0, 0, 1, 1, 2, 2, 0, 2, 1, 0], dtype=np.uint16))
    found = staircase_predict(tmp_path / "ids.npy", CorpusReading(vocabulary=3, workers=1))
    assert not found.predicted.exists
    assert found.predicted.steps is None
    assert found.text.startswith("Order 0 has nothing to learn here")


@pytest.mark.parametrize(("name", "value"), [("init_scale", 1.0), ("init_scale", 0.0), ("learning_rate", -1.0), ("learning_rate", True)])
def test_bad_numbers_of_a_forecast_are_refused(world: tuple[Path, Path], name: str, value: float) -> None:
    with pytest.raises(InputError, match=f"{name} is"):
        staircase_predict(world[1], CorpusReading(vocabulary=VOCABULARY), **{name: value})  # pyright: ignore[reportArgumentType]
