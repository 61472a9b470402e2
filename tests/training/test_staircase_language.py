"""The decoder's causality and loss, the split of a text, seeds, and a language whose entropy is known."""

import numpy as np
import pytest
import torch

from normwise.core.errors import InputError, WorkError
from normwise.theory.series_integrity import find_gaps
from normwise.training import staircase_decoder
from normwise.training.staircase_decoder import StairDecoder
from normwise.training.staircase_language import LanguageRun, train_language
from normwise.training.staircase_text import bigram_loss, split_text, unigram_loss, windows_of

V, END = 12, 0
SMALL = {"batch": 4, "length": 8, "width": 8, "warmup": 0, "layers": 1}


@pytest.fixture(autouse=True)
def _one_thread():
    """Small products: more threads only wait for each other."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def _chain():
    """A law of next tokens (V, V): each has two that may follow, and an end so seldom that few documents are the same."""
    law = np.zeros((V, V))
    for a in range(1, V):
        np.add.at(law[a], [1 + (3 * a) % (V - 1), 1 + (5 * a + 2) % (V - 1)], [0.6, 0.38])
        law[a, END] = 0.02
    law[END, 1:] = 1.0 / (V - 1)
    np.testing.assert_allclose(law.sum(axis=1), 1.0)
    return law


def _language(tokens, seed=0):
    random, law = np.random.default_rng(seed), _chain().cumsum(axis=1)
    ids = [END]
    for draw in random.random(tokens):
        ids.append(min(int(np.searchsorted(law[ids[-1]], draw)), V - 1))
    return np.array([*ids[1:], END], dtype=np.int32)


def _train(ids=None, *, seed=0, watch=(3, 1), told=None, **run):
    ids = _language(2000) if ids is None else ids
    return train_language(ids, LanguageRun(**SMALL | run), end=END, vocabulary=V, seed=seed, watch=np.array(watch), told=told)


def _decoder(width=64, vocabulary=50, gamma=0.3):
    return StairDecoder(vocabulary, width=width, layers=2, gamma=gamma, random=np.random.default_rng(0))


@pytest.mark.parametrize("width", [64, 10])
def test_a_later_token_changes_no_earlier_logit(width):
    model = _decoder(width)
    tokens = torch.as_tensor(np.random.default_rng(1).integers(0, 50, size=(3, 9)))
    other = tokens.clone()
    other[:, 5] = (tokens[:, 5] + 1) % 50
    with torch.no_grad():
        logits, changed = model(tokens), model(other)
    assert torch.equal(logits[:, :5], changed[:, :5])
    assert ((logits[:, 5:] - changed[:, 5:]).abs().amax(dim=2) > 1e-3).all()


def test_places_count_by_their_distances_alone():
    """Rotary positions: what stands before a window moves nothing where attention cannot reach it; order does."""
    model = _decoder()
    with torch.no_grad():
        states = model.hidden(torch.tensor([[7, 7, 7, 7]]))[0]
        one, two = (model(torch.tensor([row]))[0, -1] for row in ([4, 9, 3], [9, 4, 3]))
        queries = torch.as_tensor(np.random.default_rng(2).normal(size=(1, 1, 6, 32)), dtype=torch.float32)
        same = queries[:, :, :1].expand(-1, -1, 6, -1)
        turn = staircase_decoder._rotary(6, 32, torch.float32)
        scores = (staircase_decoder._turned(same, turn) @ staircase_decoder._turned(queries[:, :, 1:2].expand(-1, -1, 6, -1), turn).mT)[
            0, 0
        ]
    torch.testing.assert_close(states, states[:1].expand(4, -1), atol=1e-5, rtol=1e-5)
    assert (one - two).abs().max() > 1e-3
    torch.testing.assert_close(scores[1:, 1:], scores[:-1, :-1], atol=1e-4, rtol=1e-4)
    assert (scores[0, 1:] - scores[0, 0]).abs().max() > 0.1


@pytest.mark.parametrize("chunk", [1, 7, 256])
def test_the_loss_in_chunks_is_the_mean_cross_entropy_with_its_gradients(chunk, monkeypatch):
    monkeypatch.setattr(staircase_decoder, "_CHUNK", chunk)
    random = np.random.default_rng(3)
    states, table = (torch.as_tensor(5.0 * random.normal(size=shape)).requires_grad_() for shape in ((15, 4), (9, 4)))
    labels = torch.as_tensor(random.integers(0, 9, size=15))
    grads = []
    for loss in (staircase_decoder._MeanLoss.apply(states, table, labels), torch.nn.functional.cross_entropy(states @ table.T, labels)):
        grads.append((loss.detach(), *torch.autograd.grad(3.0 * loss, (states, table))))
    for found, expected in zip(*grads, strict=True):
        torch.testing.assert_close(found, expected, atol=1e-12, rtol=1e-10)


def test_what_is_judged_is_the_loss_of_the_logits():
    model = _decoder()
    windows = torch.as_tensor(np.random.default_rng(4).integers(0, 50, size=(20, 31)))
    tokens, targets = windows[:, :-1], windows[:, 1:]
    loss, right = (np.concatenate(each) for each in zip(*model.judged(tokens, targets), strict=True))
    assert loss.shape == right.shape == (600,)
    assert loss.mean() == pytest.approx(float(model.loss(tokens, targets).detach()), rel=1e-5)
    assert right.mean() == pytest.approx(float((model(tokens).argmax(dim=2) == targets).double().mean()))


def test_every_matrix_starts_at_its_scale_and_gets_a_gradient():
    model = StairDecoder(2000, width=64, layers=2, gamma=0.8, random=np.random.default_rng(0))
    for name, value in model.named_parameters():
        if value.ndim == 2:
            assert float(value.detach().std()) == pytest.approx(value.shape[1] ** -0.8, rel=0.05), name
    tokens = torch.as_tensor(np.random.default_rng(5).integers(0, 2000, size=(4, 9)))
    loss = model.loss(tokens[:, :-1], tokens[:, 1:])
    loss.backward()
    assert float(loss.detach()) == pytest.approx(np.log(2000), rel=0.02)
    assert all(value.grad is not None and value.grad.abs().max() > 0.0 for value in model.parameters())
    moved = model.embedding.grad.abs().amax(dim=1) > 0.0
    assert moved.nonzero().flatten().tolist() == np.unique(tokens[:, :-1]).tolist()


def test_a_bigram_language_is_learned_to_its_entropy():
    ids, law = _language(40_000), _chain()
    logs = np.log(np.where(law > 0.0, law, 1.0))
    found = _train(ids, steps=250, checkpoints=(0, 250), batch=64, width=16, learning_rate=0.01, warmup=10)
    tokens, targets = windows_of(split_text(ids, end=END, vocabulary=V), length=8, tokens=8192)
    # The law's own loss on the tokens that are judged.
    known, order_0 = -logs[tokens, targets].mean(), found.unigram
    assert found.loss[0] == pytest.approx(np.log(V), abs=0.15)
    assert known - 0.01 < found.loss[-1] < known + 0.05 < order_0 - 1.0
    assert found.bigram == pytest.approx(known, abs=0.01)
    assert found.accuracy[-1] == pytest.approx((law.argmax(axis=1)[tokens] == targets).mean(), abs=0.03)
    assert found.frequency == pytest.approx([(ids == 3).mean(), (ids == 1).mean()], rel=0.02)


def test_equal_seeds_are_equal_to_the_bit_and_leave_the_generators_alone():
    torch.manual_seed(5)
    before = torch.get_rng_state()
    first, again, other = (_train(steps=12, checkpoints=(0, 5, 12), seed=seed) for seed in (3, 3, 4))
    assert torch.equal(torch.get_rng_state(), before)
    assert first.digests == again.digests
    assert np.array_equal(first.loss, again.loss)
    assert np.array_equal(first.embedding, again.embedding)
    assert not set(first.digests) & set(other.digests)
    assert len(set(first.digests)) == 3
    assert first.embedding.dtype == np.float32


def test_watched_rows_are_the_tables_rows():
    whole = _train(steps=6, checkpoints=(0, 6), watch=range(V))
    some = _train(steps=6, checkpoints=(0, 6), watch=(7, 2, 5))
    assert np.array_equal(some.embedding, whole.embedding[:, [7, 2, 5]])
    assert np.array_equal(some.frequency, whole.frequency[[7, 2, 5]])
    assert whole.frequency.sum() == pytest.approx(1.0)
    assert some.digests == whole.digests
    start = StairDecoder(V, width=8, layers=1, gamma=0.8, random=np.random.default_rng([0, 10])).embedding
    assert np.array_equal(whole.embedding[0], start.detach().numpy())
    assert (np.abs(whole.embedding[1] - whole.embedding[0]).max(axis=1) > 1e-3).all()


def test_looking_changes_nothing_and_is_told():
    seen = []
    often = _train(steps=10, checkpoints=range(11), told=lambda *each: seen.append(each))
    seldom = _train(steps=10, checkpoints=(10,))
    assert often.digests[-1:] == seldom.digests
    assert seen == list(zip(range(11), often.loss, often.accuracy, strict=True))


def test_the_rate_rises_in_a_line_and_is_held():
    run = LanguageRun(learning_rate=0.1, warmup=4, steps=10)
    assert [run.rate(step) for step in range(6)] == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1, 0.1])
    assert LanguageRun(learning_rate=0.1, warmup=0).rate(0) == 0.1
    # Adam's first update is its rate in every entry with a gradient.
    for warmup, rate in ((0, 0.004), (4, 0.001)):
        found = _train(steps=5, checkpoints=(0, 1), warmup=warmup, learning_rate=0.004).embedding
        assert np.abs(found[1] - found[0]).max() == pytest.approx(rate, rel=1e-3)


def test_usual_checkpoints_are_dense_early_and_without_gaps():
    for steps in (1, 2, 20, 50, 87, 250, 1000):
        looks = LanguageRun(steps=steps, warmup=0).looks
        assert looks[0] == 0
        assert looks[-1] == steps
        assert not find_gaps(looks)
        assert (np.diff(np.diff(looks)) >= 0).all()
    assert len(LanguageRun().looks) > 20


def test_what_is_held_out_is_whole_documents_and_never_trained_on():
    ids = _language(3000)
    split = split_text(ids, end=END, vocabulary=V)

    def documents(row):
        return [tuple(each) for each in np.split(row, np.flatnonzero(row == END) + 1) if each.size]

    assert sorted(documents(split.train) + documents(split.held_out)) == sorted(documents(ids))
    assert not set(documents(split.train)) & set(documents(split.held_out))
    assert 0.05 <= len(documents(split.held_out)) / len(documents(ids)) < 0.2
    shuffled = np.concatenate([np.array(each) for each in sorted(documents(ids))])
    assert np.array_equal(split_text(shuffled, end=END, vocabulary=V).held_out, split.held_out)
    # An end that the last document lacks is put there.
    assert ids[-1] == END
    assert np.array_equal(split_text(ids[:-1], end=END, vocabulary=V).train, split.train)


def test_references_are_those_of_the_equations():
    split = split_text(_language(1500), end=END, vocabulary=V)
    tokens, targets = windows_of(split, length=4, tokens=40)
    assert tokens.shape == (10, 4)
    assert np.array_equal(tokens.ravel()[1:], targets.ravel()[:-1])
    train = split.train.tolist()
    plain = [(train.count(v) + 1) / (len(train) + V) for v in range(V)]
    ones, twos = [], []
    for a, v in zip(tokens.ravel(), targets.ravel(), strict=True):
        behind = [y for x, y in zip(train, train[1:], strict=False) if x == a]
        kinds = len(set(behind))
        ones.append(-np.log(plain[v]))
        twos.append(-np.log((behind.count(v) + kinds * plain[v]) / (len(behind) + kinds) if behind else plain[v]))
    assert unigram_loss(split, targets) == pytest.approx(np.mean(ones))
    assert bigram_loss(split, tokens, targets) == pytest.approx(np.mean(twos))
    unseen = np.full((1, 1), 13), np.full((1, 1), 3)
    wider = split_text(_language(1500), end=END, vocabulary=14)
    assert bigram_loss(wider, *unseen) == pytest.approx(unigram_loss(wider, unseen[1]))


def test_a_training_that_breaks_is_told(monkeypatch):
    # As soon as it happens, between checkpoints too.
    with pytest.raises(WorkError, match=r"the loss of seed 2 is (nan|inf) at step [1-9]; take a learning_rate below 1e\+30, or a longer"):
        _train(steps=20, checkpoints=(0, 20), seed=2, learning_rate=1e30)
    monkeypatch.setattr(StairDecoder, "judged", lambda *_: iter([(np.array([np.inf, 1.0]), np.array([True, True]))]))
    with pytest.raises(WorkError, match=r"the loss of seed 2 is inf at step 0; take"):
        _train(steps=2, seed=2)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"steps": 0}, "steps is 0; expected at least 1"),
        ({"batch": 0}, "batch is 0; expected at least 1"),
        ({"length": 1}, "length is 1; expected at least 2"),
        ({"layers": 0}, "layers is 0; expected at least 1"),
        ({"width": 7}, "width is 7; expected an even number"),
        ({"learning_rate": float("nan")}, "learning_rate is nan; expected a finite rate above 0"),
        ({"learning_rate": 0.0}, "learning_rate is 0; expected a finite rate above 0"),
        ({"gamma": -0.1}, "gamma is -0.1; expected a finite exponent"),
        ({"warmup": 251}, "warmup is 251; expected 0 to the 250 steps"),
        ({"checkpoints": (0, 0)}, r"checkpoints are \[0, 0\]; expected rising steps in 0..250"),
        ({"checkpoints": (0, 251)}, r"checkpoints are \[0, 251\]; expected rising steps"),
        ({"checkpoints": ()}, r"checkpoints are \[\]; expected rising steps"),
    ],
)
def test_settings_that_mean_nothing(change, words):
    with pytest.raises(InputError, match=words):
        LanguageRun(**{"steps": 250} | change)


def test_texts_and_ids_that_do_not_fit():
    with pytest.raises(InputError, match=r"watch holds -1 to 3; expected ids from 0 to 11"):
        _train(watch=(3, -1))
    with pytest.raises(InputError, match="watch holds an id twice"):
        _train(watch=(3, 3))
    with pytest.raises(InputError, match=r"watch is float64 of shape \(0,\); expected one row"):
        _train(watch=())
    with pytest.raises(InputError, match="seed is -1; expected at least 0"):
        _train(seed=-1)
    with pytest.raises(InputError, match=r"ids hold 1 documents that differ, parted by 0; expected at least 20"):
        _train(np.ones(500, dtype=np.int64))
    with pytest.raises(InputError, match="length is 400 and .* tokens are held out; expected more of them: shorten length"):
        _train(length=400)
    with pytest.raises(InputError, match="ids"):
        _train(_language(2000) + 1)
