"""Norms across modalities from end to end: two files of vectors, and a tiny dual model on a set with pictures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import typer
from typer.testing import CliRunner

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))

from tiny_picture_families import DUAL, save_picture_family

from normwise import cli_inspect
from normwise.core.errors import InputError
from normwise.core.inspect_records import InspectReport
from normwise.core.records import Interval
from normwise.data.contents import Interleaved
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged
from normwise.models.encoder import Encoder
from normwise.theory.modality_gap import TwoModalities, modality_gap
from normwise.workflows.inspect import inspect
from normwise.workflows.inspect_across import _kept_pairs, _one_of_each, _sign_words, agreement, side_of
from normwise.workflows.inspect_modalities import _gather, _pairs, _set_factors
from normwise.workflows.inspect_report import Judging, relate_norms, report_of
from normwise.workflows.inspect_source import Material
from normwise.workflows.inspect_usefulness import encode_set, load_judged

CONCEPTS = 40


def two_sets(rows=120, width=8, *, seed=0):
    rng = np.random.default_rng(seed)
    x, y = rng.normal(size=(rows, width)) + 1.0, rng.normal(size=(rows, width)) - 1.0
    depth = rng.integers(1, 9, size=rows).astype(float)
    return x * np.exp(0.1 * depth[:, None]), y * np.exp(-0.1 * depth[:, None]), depth


@pytest.fixture
def ran():
    app = typer.Typer()

    @app.callback()
    def only():
        pass

    cli_inspect.mount(app)

    def run(*arguments):
        found = CliRunner().invoke(app, ["inspect", *map(str, arguments)])
        assert found.exception is None or isinstance(found.exception, SystemExit), found.exception
        return found

    return run


def colored(shade: int) -> Picture:
    from PIL import Image

    y, x = np.mgrid[0:24, 0:24]
    planes = np.stack([(x * shade) % 251, (y * (shade + 3)) % 241, np.full_like(x, 6 * shade % 256)], axis=-1)
    return Picture.of_image(Image.fromarray(planes.astype(np.uint8)), name=f"{shade}.png")


def picture_set() -> Judged:
    """Words ask for pictures; each concept is one of both, and every second one has a further word."""
    pictures = tuple(colored(number) for number in range(CONCEPTS))
    corpus = Corpus(tuple(f"c{number}" for number in range(CONCEPTS)), pictures)
    queries = [(f"shade number {number}", number) for number in range(CONCEPTS)]
    queries += [(f"the {number}th", number) for number in range(0, CONCEPTS, 2)]
    return Judged(
        query_ids=tuple(f"q{row}" for row in range(len(queries))),
        queries=tuple(text for text, _ in queries),
        relevance=tuple({number: 1.0} for _, number in queries),
        corpus=corpus,
        clusters=np.array([number for _, number in queries]),
    )


@pytest.fixture(scope="module")
def dual(tmp_path_factory):
    return save_picture_family(DUAL, tmp_path_factory.mktemp("dual"))


def test_two_files_of_vectors_give_both_reports_and_what_lies_between(ran, tmp_path):
    x, y, depth = two_sets()
    np.save(tmp_path / "images.npy", x)
    np.save(tmp_path / "texts.npy", y)
    (tmp_path / "f.csv").write_text("depth\n" + "\n".join(map(str, depth)) + "\n")
    arguments = (tmp_path / "images.npy", "--against", tmp_path / "texts.npy", "--paired", "--factors", tmp_path / "f.csv")
    arguments += ("--against-factors", tmp_path / "f.csv")
    found = ran(*arguments, "--json", "--report", tmp_path / "page.html")
    assert found.exit_code == 0
    report = InspectReport.from_json(found.stdout)
    assert (report.modality, report.parts[0].modality) == ("images.npy", "texts.npy")
    assert report.across.gap == modality_gap(
        TwoModalities(x.astype(np.float32), y.astype(np.float32), np.tile(np.arange(120), 2), np.stack([np.arange(120)] * 2, axis=1)),
        seed=0,
    )
    assert report.across.ellipsoids.first.offset.outcome == "holds"
    assert [(sign.factor, sign.agreement) for sign in report.across.signs] == [("depth", "opposite signs")]
    assert "say nothing of how they came about" in report.across.sign_words
    alone = inspect(x, factors={"depth": depth})
    assert report.norm == alone.norm
    assert report.factors == alone.factors
    assert report.parts[0].factors == inspect(y, factors={"depth": depth}).factors
    assert 'id="across"' in (tmp_path / "page.html").read_text()
    lines = ran(*arguments).stdout.replace("\n", " ")
    for said in ("texts.npy: 120 vectors", "lie apart", "double ellipsoid", "dot product images.npy → texts.npy", "opposite signs in both"):
        assert said in lines
    assert set(json.loads(found.stdout)["across"]["gap"]) >= {"gap", "p_value", "held_out"}


def test_rows_without_a_norm_are_left_out_of_both():
    x, y, _ = two_sets()
    x[3], y[7] = 0.0, np.nan
    found = inspect(x, against=y, paired=True).across
    assert (found.gap.first_rows, found.gap.second_rows, found.gap.pairs) == (119, 119, 118)
    assert found.notes == ("1 row of array without a usable norm left out", "1 row of against without a usable norm left out")
    few = inspect(x[:20], against=y).across
    assert few.gap is None
    assert "nothing is compared below 30" in few.notes[-1]


def test_pairs_keep_their_rows_when_some_are_left_out():
    rows = [np.array([0, 2, 5]), np.array([1, 2, 9])]
    kept = _kept_pairs(np.array([[0, 1], [2, 9], [5, 3], [4, 2], [9, 9]]), rows, 0)
    assert kept.tolist() == [[0, 0], [1, 2]]
    assert _kept_pairs(np.array([[4, 4]]), rows, 0) is None


def test_one_row_of_each_unit_is_drawn():
    units = np.array([5, 5, 1, 1, 1, 7])
    drawn = [_one_of_each(units, seed) for seed in range(30)]
    assert all(sorted(units[rows]) == [1, 5, 7] for rows in drawn)
    assert {tuple(rows) for rows in drawn} > {tuple(drawn[0])}


def test_a_sign_is_never_told_without_its_regime():
    x, y, depth = two_sets(200)
    sides = []
    for name, vectors in (("texts", x), ("pictures", y)):
        from normwise.data.norm_inputs import array_input

        related = relate_norms(Material(array_input(vectors)), {"depth": depth}, Judging())
        sides.append(side_of(name, related, report_of(related, Judging()), None))
    from normwise.workflows.inspect_across import _signs

    signs = _signs(sides[0].report, sides[1].report)
    said = _sign_words(signs, *sides)
    assert said.startswith("opposite signs in both for depth. The regime of the texts and of the pictures is undetermined")
    known = [side_of(s.name, s.related, s.report.model_copy(update={"regime": "noise"}), None) for s in sides]
    assert _sign_words(signs, *known) == "opposite signs in both for depth. Regimes: noise for the texts and noise for the pictures"
    assert _sign_words((), *sides) == ""
    down = Interval(mean=-0.4, ci_low=-0.5, ci_high=-0.3)
    assert agreement(down, Interval(mean=0.4, ci_low=0.3, ci_high=0.5)) == "opposite signs"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"against": np.ones((40, 3))}, "against has 3 dimensions and array 8"),
        ({"against": np.ones((40, 8)), "paired": True}, "array has 120 vectors and against 40"),
        ({"against": np.ones((40, 8)), "data": "python-docs"}, "give one of them"),
        ({"paired": True}, "paired says something of the vectors at against"),
        ({"against_factors": {"a": np.ones(3)}}, "against_factors says something"),
        ({"data": "python-docs"}, "the source is no model"),
    ],
)
def test_arguments_that_do_not_fit_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        inspect(two_sets()[0], **arguments)


def test_against_a_model_is_refused(dual):
    with pytest.raises(InputError, match="the source is a model"):
        inspect(dual, against=np.ones((40, 8)))


@pytest.mark.slow
def test_a_set_with_pictures_is_inspected_by_modality(dual):
    judged = picture_set()
    depth = np.arange(CONCEPTS, dtype=float)
    report = inspect(dual, data=judged, factors={"depth": depth})
    encoder = Encoder.load(dual)
    texts, shown = encoder.encode_queries(judged.queries), encoder.encode_candidates(judged.corpus.contents)
    assert [(part.modality, part.n) for part in report.parts] == [("texts", 60), ("pictures", 40)]
    assert (report.modality, report.n) == ("all contents", 100)
    assert report.parts[0].norm.mean == pytest.approx(float(np.linalg.norm(texts, axis=1).mean()), rel=1e-5)
    assert report.parts[1].norm.mean == pytest.approx(float(np.linalg.norm(shown, axis=1).mean()), rel=1e-5)
    assert [factor.name for factor in report.factors] == ["modality"]
    assert [factor.name for factor in report.parts[1].factors] == ["depth"]
    assert "tokens" in [factor.name for factor in report.parts[0].factors]
    across = report.across
    pairs = np.array([[row, next(iter(relevant))] for row, relevant in enumerate(judged.relevance)])
    clusters = np.concatenate([judged.clusters, np.arange(CONCEPTS)])
    direct = modality_gap(TwoModalities(texts, shown, clusters, pairs), seed=0)
    assert across.gap.gap == pytest.approx(direct.gap, rel=1e-4)
    assert across.gap.matched_cosine == pytest.approx(direct.matched_cosine, rel=1e-4)
    assert (across.gap.pairs, across.clusters) == (60, CONCEPTS)
    assert across.freedom_second.figures["texts"] == 16.0
    assert report.usefulness is not None
    assert [part.usefulness for part in report.parts] == [None, report.usefulness]
    with pytest.raises(InputError, match="leave texts out"):
        inspect(dual, data=judged, texts=["a", "b"])
    with pytest.raises(InputError, match="the set has 40 candidates"):
        inspect(dual, data=judged, factors={"depth": np.ones(7)})


def test_units_pairs_and_factors_follow_the_judgements(dual):
    judged = picture_set()
    loaded = load_judged(judged, limit_queries=30, limit_candidates=35, seed=1)
    encoded = encode_set(Encoder.load(dual), loaded)
    test = encoded.test.judged
    assert loaded.candidates == judged.corpus.ids
    assert len(test.corpus) == 35
    assert encoded.tokens is None
    depth = np.arange(CONCEPTS, dtype=float)
    factors = _set_factors(encoded, test, {"depth": depth}, loaded.candidates)
    names = [int(name[1:]) for name in test.corpus.ids]
    assert factors["depth"][:35].tolist() == names
    assert np.isnan(factors["depth"][35:]).all()
    found = _gather(encoded, factors)
    for query, relevant in enumerate(test.relevance):
        for row in relevant:
            assert found.clusters[row] == found.clusters[35 + query]
    asked = {row for relevant in test.relevance for row in relevant}
    lone = [found.clusters[row] for row in range(35) if row not in asked]
    assert len(set(lone)) == len(lone)
    assert not set(lone) & set(test.clusters.tolist())
    texts, shown = found.rows("text"), found.rows("image")
    pairs = _pairs(test, 35, texts, shown)
    assert sorted(map(tuple, pairs.tolist())) == sorted((query, row) for query, relevant in enumerate(test.relevance) for row in relevant)
    assert _pairs(test, 35, texts, texts) is None


def test_a_content_that_stands_twice_is_taken_once_and_kinds_are_kept_apart(dual):
    shown = [colored(1), colored(2), colored(3)]
    corpus = Corpus(("a", "b", "c"), (shown[0], "a word", Interleaved((shown[1], "in red"))))
    judged = Judged(("q", "r", "s"), ("a word", "A  word", shown[2]), ({0: 1.0}, {0: 1.0}, {1: 1.0}), corpus, np.arange(3))
    loaded = load_judged(judged, seed=0)
    found = _gather(encode_set(Encoder.load(dual), loaded), {})
    assert found.rows("text").tolist() == [1, 3]
    assert found.rows("image").tolist() == [0, 5]
    assert found.rows("text+image").tolist() == [2]
