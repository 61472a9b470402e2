"""The bake-off: nobody is judged on what it saw, the rule of choice is the one written down, and bars hold."""

from dataclasses import replace

import numpy as np
import pytest
from bake_off_worlds import judged

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.theory import bake_off as bake_off_module
from normwise.theory import bake_off_training
from normwise.theory.bake_off import FOLDS, bake_off
from normwise.theory.bake_off_choice import choose
from normwise.theory.bake_off_entrants import Setting, entrants
from normwise.theory.bake_off_training import Training, clipped_log_losses, nearest_hits
from normwise.theory.calibrators import chosen_right, read_calibrator
from normwise.theory.folds import cluster_folds
from normwise.theory.hit_lists import HitLists, JudgedHits
from normwise.theory.logistic_calibrator import LogisticCalibrator
from normwise.theory.norm_gain import norm_gains
from normwise.theory.standard_error import standard_error


def run(world, *, temperature=0.1, seed=0, lengths_at_search=True, **how):
    return bake_off(world, temperature=temperature, seed=seed, lengths_at_search=lengths_at_search, **how)


@pytest.fixture
def quick(monkeypatch):
    """Without inner folds, for what has nothing to do with them."""
    monkeypatch.setattr(bake_off_training, "INNER_BELOW", 0)


@pytest.fixture(scope="module")
def informed():
    """A world in which the query's norm tells right from wrong, with clusters of six."""
    world = judged(seed=1, count=240, depth=5, by_norm=1.5, frequency=True, per_cluster=6)
    return world, run(world)


def test_a_norm_that_carries_information_is_chosen_and_gains(informed):
    _, found = informed
    assert "norm" in found.winner.name or "norm" in found.chosen.base.kind
    assert found.winner.eligible
    assert found.winner.name in found.words
    gain = norm_gains(found, judged(seed=2, count=400, depth=5, by_norm=1.5, frequency=True), seed=0)[0]
    assert gain.metric == "e_aurc"
    assert gain.ci_low > 0.0


def test_no_label_of_a_cluster_reaches_the_held_out_probabilities_of_that_cluster(informed):
    """Duplicates of one cluster included: the label of one query is flipped, all six must not notice, and others must."""
    world, found = informed
    cluster = np.flatnonzero(world.clusters == 7)
    relevant = world.relevant.copy()
    relevant[cluster[0]] = ~relevant[cluster[0]]
    other = run(replace(world, relevant=relevant))
    assert [each.name for each in other.candidates] == [each.name for each in found.candidates]
    for before, after in zip(found.candidates, other.candidates, strict=True):
        assert np.array_equal(before.held_out[cluster], after.held_out[cluster]), before.name
        assert np.array_equal(before.held_order[cluster], after.held_order[cluster]), before.name
        if before.name != "softmax":
            assert not np.array_equal(before.held_out, after.held_out), before.name


def test_held_out_probabilities_are_those_of_a_fit_without_the_fold(informed):
    """Oracle: the folds made by hand."""
    world, found = informed
    rows = next(each for each in found.candidates if each.name == "temperature").held_out
    folds = cluster_folds(world.clusters, folds=FOLDS, seed=0)
    expected = np.empty(len(world))
    for fold in range(FOLDS):
        model = type(found.fitted["temperature"]).fit(world.subset(folds != fold))
        expected[folds == fold] = model.predict(world.subset(folds == fold).hits)
    assert np.array_equal(rows, expected)


def test_figures_are_those_of_the_held_out_probabilities(informed):
    world, found = informed
    best = min((each for each in found.candidates if each.eligible), key=lambda each: each.cv_nll)
    for each in found.candidates:
        right = chosen_right(world, each.held_order)
        losses = clipped_log_losses(each.held_out, right)
        difference = losses - clipped_log_losses(best.held_out, chosen_right(world, best.held_order))
        assert each.cv_nll == losses.mean()
        assert each.cv_se == standard_error(losses, world.clusters)
        assert each.behind == difference.mean()
        assert each.behind_se == pytest.approx(standard_error(difference, world.clusters), abs=1e-12)
        assert each.accuracy == right.mean()
        assert each.parameters == found.fitted[each.name].parameters


def test_nothing_that_a_search_cannot_compute_is_eligible(informed):
    _, found = informed
    for each in found.candidates:
        control = any(word in each.name for word in ("controls", "length", "frequency", "permuted"))
        assert not (control and each.eligible), each.name
        assert each.words
    assert "no search knows" in next(each.words for each in found.candidates if each.name == "logistic_controls")


def test_every_fit_lives_in_json(informed):
    _, found = informed
    for name, fitted in found.fitted.items():
        assert read_calibrator(fitted.to_json()) == fitted
        assert fitted.kind == name


def test_where_nothing_tells_right_from_wrong_the_simplest_near_the_best_is_chosen(quick):
    found = run(judged(seed=1, count=300, depth=3, by_score=0.0, lengths=False), temperature=None)
    near = [each for each in found.candidates if each.eligible and each.behind <= each.behind_se]
    assert found.winner.parameters == min(each.parameters for each in near)
    assert found.winner.parameters <= 3


def test_norms_that_say_nothing_are_rarely_chosen(quick):
    """12 worlds; by more than one error chance puts the richer one ahead in a sixth of them, and in 6 or more of 12 once in 120."""
    chosen = []
    for seed in range(12):
        world = judged(seed=seed, count=300, depth=3, lengths=False)
        field = [each for each in entrants(world, Setting(None, lengths_at_search=False))[0] if each.name in ("logistic", "logistic_norm")]
        folds = cluster_folds(world.clusters, folds=FOLDS, seed=seed)
        runs, _, _ = bake_off_module._fitted(world, field, folds, Training(world, seed))
        losses = {name: each.losses for name, each in runs.items()}
        chosen.append(choose(losses, {"logistic": 3, "logistic_norm": 5}, world.clusters)[0])
    assert chosen.count("logistic_norm") <= 5


def test_the_simpler_one_within_one_paired_error_is_chosen():
    """Mean difference .1, its error .17."""
    rich = np.array([0.5, 0.5, 0.5, 0.5])
    plain = rich + np.array([0.4, -0.2, 0.4, -0.2])
    error = np.sqrt(4 / 3 * np.sum((np.array([0.4, -0.2, 0.4, -0.2]) - 0.1) ** 2)) / 4
    assert 0.1 <= error
    assert choose({"plain": plain, "rich": rich}, {"plain": 1, "rich": 9}, np.arange(4)) == ("plain", "rich")
    # Ten times as many of the same: the difference stays, its error falls below it.
    many = {"plain": np.tile(plain, 10), "rich": np.tile(rich, 10)}
    assert choose(many, {"plain": 1, "rich": 9}, np.arange(40)) == ("rich", "rich")
    # In clusters of ten equal ones they are four again.
    assert choose(many, {"plain": 1, "rich": 9}, np.tile(np.arange(4), 10)) == ("plain", "rich")


def test_a_sure_difference_keeps_the_richer_one_however_small_it_is():
    plain, rich = np.full(50, 0.501), np.full(50, 0.5)
    assert choose({"plain": plain, "rich": rich}, {"plain": 0, "rich": 99}, np.arange(50)) == ("rich", "rich")


def test_a_richer_one_is_never_chosen_for_being_near():
    rng = np.random.default_rng(0)
    best = rng.random(100)
    losses = {"plain": best, "rich": best + 0.1 * rng.normal(size=100) + 0.001}
    assert choose(losses, {"plain": 1, "rich": 5}, np.arange(100))[0] == "plain"


def test_of_equals_the_first_in_the_list_is_chosen():
    same = np.linspace(0.0, 1.0, 9)
    assert choose({"one": same, "two": same.copy()}, {"one": 2, "two": 2}, np.arange(9))[0] == "one"


def test_the_error_of_a_mean_by_a_slow_loop():
    rng = np.random.default_rng(0)
    values, clusters = rng.normal(size=30), rng.integers(7, size=30)
    total = sum(sum(values[i] - values.mean() for i in range(30) if clusters[i] == c) ** 2 for c in set(clusters.tolist()))
    count = len(set(clusters.tolist()))
    assert standard_error(values, clusters) == pytest.approx((count / (count - 1) * total) ** 0.5 / 30)
    assert standard_error(values, np.arange(30)) == pytest.approx(values.std(ddof=1) / 30**0.5)


def reranked_world(*, seed=0, by="norm"):
    """Near ties: of the first two hits the relevant one is the one with the greater norm (or length); score says nothing."""
    rng = np.random.default_rng(seed)
    count, depth = 300, 4
    scores = np.tile([0.6, 0.6 - 1e-4, 0.3, 0.2], (count, 1)) + 0.05 * rng.random((count, 1))
    norms, lengths = np.exp(0.3 * rng.normal(size=(count, depth))), np.round(np.exp(3 + 0.6 * rng.normal(size=(count, depth))))
    value = norms if by == "norm" else lengths
    if by == "length":
        norms = lengths**0.3
    best = (value[:, 1] > value[:, 0]).astype(int)
    best = np.where(rng.random(count) < 0.15, 1 - best, best)
    relevant = np.zeros((count, depth), dtype=bool)
    relevant[np.arange(count), best] = True
    hits = HitLists(scores, np.ones(count), norms, Similarity.COSINE, query_lengths=np.ones(count), hit_lengths=lengths)
    return JudgedHits(hits, relevant, np.arange(count), np.ones(count, dtype=bool))


def test_a_re_ranking_that_beats_plain_and_length_may_be_chosen_and_one_that_is_length_may_not(quick):
    by_norm = {each.name: each for each in run(reranked_world()).candidates}
    assert by_norm["norm_reranking"].eligible
    assert by_norm["norm_reranking"].accuracy > 0.8
    by_length = {each.name: each for each in run(reranked_world(by="length")).candidates}
    assert by_length["norm_reranking"].accuracy > 0.8
    assert not by_length["norm_reranking"].eligible
    assert "does not beat the same re-ranking by length" in by_length["norm_reranking"].words
    assert not by_length["length_reranking"].eligible


def test_without_lengths_no_re_ranking_is_eligible(quick):
    world = reranked_world()
    bare = replace(world, hits=replace(world.hits, query_lengths=None, hit_lengths=None))
    found = run(bare)
    row = next(each for each in found.candidates if each.name == "norm_reranking")
    assert not row.eligible
    assert "cannot be told from one by length" in row.words
    assert {"length_reranking", "logistic_controls", "norm_temperature_controls"} <= set(found.left_out)


def test_what_the_data_do_not_allow_is_left_out_with_the_reason():
    setting = Setting(None, lengths_at_search=False)
    world = judged(seed=0, count=1000, lengths=False)
    field, left_out = entrants(world, setting)
    assert "the training temperature is not known" in left_out["softmax"]
    assert "neither lengths nor frequencies" in left_out["logistic_controls"]
    assert "isotonic" in [each.name for each in field]
    assert "isotonic stands in from" in left_out["beta"]
    field, left_out = entrants(world.subset(np.arange(999)), setting)
    assert "beta" in [each.name for each in field]
    assert "1,000 fit queries, 999 came" in left_out["isotonic"]
    field, left_out = entrants(judged(seed=0, depth=1), setting)
    assert "one hit per query" in left_out["temperature"]
    flat = replace(world, hits=replace(world.hits, query_norms=np.ones(1000), hit_norms=np.ones((1000, 12))))
    field, left_out = entrants(flat, setting)
    assert "all norms are equal" in left_out["logistic_norm"]
    assert "the norms of all hits are equal" in left_out["norm_prior"]


def test_lengths_are_barred_exactly_where_a_search_lacks_them():
    world = judged(seed=0, count=200)
    barred = {each.name: each.barred for each in entrants(world, Setting(0.1, lengths_at_search=False))[0]}
    assert "will not know" in barred["logistic_controls"]
    assert not {each.name: each.barred for each in entrants(world, Setting(0.1, lengths_at_search=True))[0]}["logistic_controls"]
    assert barred["length_prior"]


def test_asked_signals_make_the_logistic_that_is_chosen(quick):
    world = judged(seed=0, count=200, depth=4)
    found = run(world, signals=["lead", "log query norm"])
    assert found.chosen.kind == "logistic"
    assert {column.signal for column in found.chosen.columns} == {"lead", "log query norm"}
    assert "signals that were asked for" in found.words


@pytest.mark.parametrize(
    ("signals", "expected"),
    [
        (["scor"], "'scor' is unknown; did you mean score"),
        (["query frequency"], "cannot be computed from these data"),
        (["score", "hit length"], "a later search will not know"),
        ([], 'expected "auto" or a list'),
        ("score", 'expected "auto" or a list'),
        (["score", "score"], "different names"),
    ],
)
def test_signals_that_cannot_be_used_are_refused(signals, expected):
    with pytest.raises(InputError, match=expected):
        run(judged(seed=0, count=200, depth=4), signals=signals, lengths_at_search=False)


def with_right(world, right):
    relevant = world.relevant.copy()
    relevant[:, 0] = right
    return replace(world, relevant=relevant)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        (lambda world: with_right(world, True), "all 200 first hits are right"),
        (lambda world: with_right(world, False), "all 200 first hits are wrong"),
        (lambda world: with_right(world, np.arange(200) < 29), "29 first hits are right and 171 wrong; expected at least 30"),
        (lambda world: with_right(world, np.arange(200) >= 29), "171 first hits are right and 29 wrong"),
        (lambda world: replace(world, clusters=np.arange(200) % 9), "form 9 clusters"),
        (
            lambda world: replace(world, hits=replace(world.hits, query_norms=np.zeros(200))),
            "for each of 200 queries, the query or its .* zero vector",
        ),
        (
            lambda world: replace(with_right(world, np.arange(200) < 120), clusters=np.where(np.arange(200) < 118, 0, np.arange(200))),
            "nearly all of one kind lie in one cluster",
        ),
    ],
)
def test_what_no_fold_can_learn_from_is_refused_in_words(change, expected):
    with pytest.raises(InputError, match=expected):
        run(change(judged(seed=0, count=200, depth=3, lengths=False)))


def test_queries_without_a_direction_change_no_bit_and_get_probability_zero():
    world = judged(seed=0, count=200, depth=3, lengths=False)
    dead = np.arange(200) % 10 == 0
    zeroed = replace(world, hits=replace(world.hits, query_norms=np.where(dead, 0.0, world.hits.query_norms)))
    found, alone = run(zeroed), run(world.subset(~dead))
    assert found.words == alone.words
    assert found.fitted == alone.fitted
    for each, other in zip(found.candidates, alone.candidates, strict=True):
        assert not each.held_out[dead].any()
        assert np.array_equal(each.held_out[~dead], other.held_out)


def test_many_queries_choose_base_and_penalty_without_inner_folds_to_the_same_end(monkeypatch):
    world = judged(seed=0, count=600, depth=4, by_norm=1.0, lengths=False)
    slow = run(world)
    monkeypatch.setattr(bake_off_training, "INNER_BELOW", 100)
    fast = run(world)
    for before, after in zip(slow.candidates, fast.candidates, strict=True):
        assert after.cv_nll == pytest.approx(before.cv_nll, abs=0.01), before.name


def test_a_part_reads_few_rows_at_even_steps_and_few_hits():
    world = judged(seed=0, count=100, depth=12)
    part = Training(world, 0, most=10)
    assert np.array_equal(part.rows.hits.scores, world.hits.scores[::10])
    assert part.near.hits.depth == 10
    assert np.array_equal(nearest_hits(world).priors["permuted norm"], world.priors["permuted norm"][:, :10])
    model = LogisticCalibrator.fit(world, signals=("score", "margin", "lead"))
    assert np.array_equal(model.predict(part.near.hits), model.predict(world.hits))


def test_inner_folds_keep_clusters_whole_and_cover_every_row_once():
    world = judged(seed=0, count=120, depth=3, per_cluster=5)
    inner = Training(world, 0).inner
    assert np.array_equal(np.sum([used for used, _, _ in inner], axis=0), np.ones(120))
    for used, rest, asked in inner:
        assert not set(rest.clusters.tolist()) & set(asked.judged.clusters.tolist())
        assert len(asked.judged) == used.sum()
