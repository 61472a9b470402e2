"""Which calibration judges which hit: by the modality of the query and of the hit, and nothing across the gap."""

import numpy as np
import pytest
from test_calibrate_directions import CANDIDATES, clip_scores, hit_lists, picture, written

from normwise.core.errors import InputError
from normwise.data.documents import indexed_text
from normwise.index.protocol import Found
from normwise.workflows.calibrate_directions import CalibrationSet, DirectedCalibration
from normwise.workflows.search_directions import choose, first_modalities, judged, known_directions, without_foreign
from normwise.workflows.search_judging import Query, calibrated
from normwise.workflows.search_queries import asked_contents


@pytest.fixture(scope="module")
def fitted():
    """Two calibrations that answer the same scores differently; the second has no threshold."""
    return [written(), written(center=0.24, usable=False)]


@pytest.fixture(scope="module")
def both(fitted):
    rows = tuple(
        DirectedCalibration(direction=name, calibration=each)
        for name, each in zip(("text -> image", "image -> image"), fitted, strict=True)
    )
    return CalibrationSet(calibrations=rows, candidates=("image",))


def found(count, *, seed=0):
    hits, _ = hit_lists(clip_scores(np.random.default_rng(seed), count))
    ids = np.array([[f"c{place}" for place in range(CANDIDATES)] for _ in range(count)], dtype=object)
    return Found(ids, hits.scores, np.ones(hits.scores.shape), np.full(count, CANDIDATES))


class Stub:
    """An index that knows texts only, and counts how often it is asked."""

    def __init__(self, kinds):
        self.kinds, self.asked = kinds, 0

    def texts(self, ids):
        self.asked += 1
        return [indexed_text(picture(int(name[1:]))) if self.kinds[int(name[1:])] == "image" else f"text {name}" for name in ids]


def test_each_query_is_judged_by_its_own_direction_and_by_nothing_else(both, fitted):
    kinds = ["text", "image", "text+image", "image", "text"]
    some = found(5)
    choice = choose(both, kinds, ["image"] * 5, task=None)
    assert choice.which.tolist() == [0, 1, -1, 1, 0]
    made = judged(some, Query(np.ones(5)), choice, shown=3, candidates=CANDIDATES)
    for row, at in enumerate(choice.which):
        if at < 0:
            assert np.isnan(made.probabilities[row]).all()
            assert made.reason_at(row, 0).startswith("not calibrated: calibrated for text -> image and image -> image only")
            continue
        alone = calibrated(some, Query(np.ones(5)), fitted[at], shown=3, candidates=CANDIDATES)
        np.testing.assert_allclose(made.probabilities[row], alone.probabilities[row], rtol=1e-12)
        assert made.abstains[row].tolist() == alone.abstains[row].tolist()
        assert [made.reason_at(row, place) for place in range(3)] == [alone.reason_at(row, place) for place in range(3)]
    others = calibrated(some, Query(np.ones(5)), fitted[1], shown=3, candidates=CANDIDATES)
    assert not np.allclose(made.probabilities[0], others.probabilities[0])
    assert choice.why_not == ""
    assert choice.notes == [
        "1 of 5 queries have no probabilities: calibrated for text -> image and image -> image only, and this is text+image -> image"
    ]


def test_one_modality_of_candidates_asks_the_index_nothing(both):
    stub = Stub({})
    assert first_modalities(stub, both, found(3)) == ["image"] * 3
    assert stub.asked == 0


def test_in_a_mixed_corpus_hits_across_the_gap_have_no_probability(both):
    mixed = both.model_copy(update={"candidates": ("text", "image")})
    stub = Stub({place: "image" if place % 2 == 0 else "text" for place in range(CANDIDATES)})
    some = found(2)
    first = first_modalities(stub, mixed, some)
    assert first == ["image", "image"]
    choice = choose(mixed, ["text", "image"], first, task=None)
    made = judged(some, Query(np.ones(2)), choice, shown=4, candidates=CANDIDATES)
    apart = without_foreign(stub, some, made, ["text", "image"], first, choice)
    assert np.isnan(apart.probabilities).tolist() == [[False, True, False, True]] * 2
    np.testing.assert_array_equal(apart.probabilities[:, ::2], made.probabilities[:, ::2])
    assert apart.abstains[:, 1::2].all()
    assert apart.reason_at(1, 1) == (
        "no probability is known: this hit is image -> text, and the first one of its list image -> image, whose scores are another scale"
    )
    assert apart.reason_at(1, 0) == made.reason_at(1, 0)


def test_a_first_hit_of_another_modality_has_no_calibration(both):
    mixed = both.model_copy(update={"candidates": ("text", "image")})
    stub = Stub(dict.fromkeys(range(CANDIDATES), "text"))
    choice = choose(mixed, ["text"], first_modalities(stub, mixed, found(1)), task=None)
    assert choice.why_not == "calibrated for text -> image and image -> image only, and this is text -> text"
    assert known_directions(mixed, ["text"], task=None) == ""
    assert known_directions(both, ["text+image"], task=None).endswith("and this is text+image -> image")


def test_a_calibration_by_itself_is_of_texts(fitted):
    alone = fitted[0]
    assert choose(alone, ["text", "image"], ["text", "text"], task=None).which.tolist() == [0, -1]
    assert known_directions(alone, ["image"], task=None) == "calibrated for text -> text only, and this is image -> text"
    with pytest.raises(InputError, match="task is 'a', and the calibration is of one direction without tasks"):
        choose(alone, ["text"], ["text"], task="a")


def test_tasks_that_share_a_direction_are_asked_for(both, fitted):
    rows = tuple(
        DirectedCalibration(direction="text -> image", task=name, calibration=each) for name, each in zip("ab", fitted, strict=True)
    )
    several = CalibrationSet(calibrations=rows, candidates=("image",))
    assert "by task (a, b): name the task" in choose(several, ["text"], ["image"], task=None).why_not
    assert choose(several, ["text"], ["image"], task="b").calibrations == (fitted[1],)


def test_verdicts_without_a_threshold_are_told_by_direction(both, fitted):
    none = fitted[0].model_copy(
        update={"threshold": None, "verdict": fitted[0].verdict.model_copy(update={"label": "no-usable-threshold", "text": "why"})}
    )
    rows = (both.calibrations[0].model_copy(update={"calibration": none}), both.calibrations[1])
    kept = both.model_copy(update={"calibrations": rows})
    assert (
        choose(kept, ["text", "image"], ["image"] * 2, task=None).verdict == f"text -> image: why; image -> image: {fitted[1].verdict.text}"
    )
    assert choose(kept, ["text"], ["image"], task=None).verdict == "why"
    assert fitted[0].threshold is not None
    assert choose(both, ["text"], ["image"], task=None).verdict == ""
    assert choose(both, ["text", "image"], ["image"] * 2, task=None).verdict == f"image -> image: {fitted[1].verdict.text}"
    assert choose(kept, ["image"], ["image"], task=None).verdict == fitted[1].verdict.text


def test_one_text_and_pictures_are_one_query_and_pictures_alone_one_each(tmp_path):
    for name in ("a.png", "b.png"):
        picture(3).open().save(tmp_path / name)
    both_files = [tmp_path / "a.png", tmp_path / "b.png"]
    assert [each.name for each in asked_contents([], both_files)] == [str(each) for each in both_files]
    [one] = asked_contents(["from <image> to <image>"], both_files)
    assert [part if isinstance(part, str) else part.name for part in one.parts] == ["from", str(both_files[0]), "to", str(both_files[1])]
    with pytest.raises(InputError, match="the text has 2 <image> for 1 picture"):
        asked_contents(["from <image> to <image>"], both_files[:1])
    with pytest.raises(InputError, match="the text beside --image is empty"):
        asked_contents([" "], both_files[:1])
