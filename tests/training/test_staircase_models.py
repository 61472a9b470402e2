"""The networks against their formulas, sequence by sequence, and their gradients against the theory of the flow."""

import numpy as np
import pytest
import torch

from normwise.core.errors import InputError
from normwise.theory import attention_flow
from normwise.theory.early_phase import EarlyPhase
from normwise.theory.embedding_flow import PolynomialNetwork, label_terms, prediction_terms
from normwise.theory.sequence_law import SequenceLaw, token_frequency
from normwise.theory.signatures import cooccurrence_signature, label_signature
from normwise.training.staircase_models import StairInit, attention_net, feed_forward_net

INIT = StairInit(seeds=(3, 4), width=5, gamma=0.5)
SIGMAS = {"relu": lambda z: np.maximum(z, 0.0), "identity": lambda z: z, 1: lambda z: z, 3: lambda z: z**3}


@pytest.fixture
def law():
    random = np.random.default_rng(1)
    return SequenceLaw(random.integers(0, 6, (40, 3)), random.integers(0, 4, 40), 7, label_count=4, weights=random.random(40))


def _arrays(net):
    return {name: value.detach().numpy() for name, value in net.named_parameters()}


def _descent(net, law):
    """Minus the gradient of the mean loss with respect to E, (S, V, d)."""
    logits = net(net.read(torch.as_tensor(law.tokens)))
    labels = torch.as_tensor(law.labels).expand(logits.shape[:2])
    losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten(), reduction="none").view(labels.shape)
    (losses @ torch.as_tensor(law.chances)).sum().backward()
    return -net.table.rows.grad.numpy()


@pytest.mark.parametrize("activation", SIGMAS)
def test_feed_forward_is_its_formula(law, activation):
    net = feed_forward_net(law, INIT, activation=activation).double()
    found = net(net.read(torch.as_tensor(law.tokens))).detach().numpy()
    held = _arrays(net)
    for s, n in np.ndindex(2, 40):
        z = sum(held["table.rows"][s, token] for token in law.tokens[n])
        np.testing.assert_allclose(found[s, n], held["unembedding"][s] @ SIGMAS[activation](z), atol=1e-12)


def test_attention_is_its_formula(law):
    net = attention_net(law, StairInit((3, 4), width=5, gamma=0.0), key_width=2).double()
    tokens = torch.as_tensor(law.tokens)
    found, weights, held = net(tokens).detach().numpy(), net.weights(tokens).detach().numpy(), _arrays(net)
    assert {name: held[name].shape[1:] for name in ("query", "key", "value", "output")} == {
        "query": (2, 5), "key": (2, 5), "value": (2, 5), "output": (5, 2)
    }  # fmt: skip
    for s, n in np.ndindex(2, 40):
        e = held["table.rows"][s][law.tokens[n]]
        scores = np.array([row @ held["key"][s].T @ held["query"][s] @ e[-1] / np.sqrt(5) for row in e])
        a = np.exp(scores) / np.exp(scores).sum()
        np.testing.assert_allclose(weights[s, n], a, atol=1e-12)
        mixed = held["output"][s] @ held["value"][s] @ (a @ e)
        np.testing.assert_allclose(found[s, n], held["unembedding"][s] @ mixed, atol=1e-12)


@pytest.mark.parametrize("make", [feed_forward_net, attention_net])
def test_seeds_may_have_sequences_of_their_own(law, make):
    net = make(law, INIT)
    tokens = torch.as_tensor(np.stack([law.tokens[:20], law.tokens[20:]]))
    apart = net(net.read(tokens))
    for s in range(2):
        assert torch.equal(apart[s], net(net.read(tokens[s]))[s])


def test_attention_that_a_token_gets_is_its_mean_over_positions(law):
    net = attention_net(law, StairInit((3, 4), width=5, gamma=0.0), key_width=2).double()
    weights, found = net.weights(torch.as_tensor(law.tokens)).detach().numpy(), net.token_attention(law)
    for s, a in np.ndindex(2, 6):
        at = [(n, i) for n, i in np.ndindex(40, 3) if law.tokens[n, i] == a]
        mass = sum(law.chances[n] for n, _ in at)
        assert found[s, a] == pytest.approx(sum(law.chances[n] * weights[s, n, i] for n, i in at) / mass)
    assert np.isnan(found[:, 6]).all()
    still = attention_net(law, StairInit((3,), width=5, gamma=9.0)).token_attention(law)
    np.testing.assert_allclose(still[0, :6], 1.0 / 3.0, atol=1e-6)
    assert feed_forward_net(law, INIT).token_attention(law) is None


@pytest.mark.parametrize("gamma", [0.5, 0.8, 1.2])
def test_entries_at_init_have_the_deviation_of_their_inputs(gamma):
    law = SequenceLaw(np.array([[0, 1]]), np.array([0]), vocabulary=400)
    net = attention_net(law, StairInit((7,), width=100, gamma=gamma), key_width=25)
    for name, inputs in {"table.rows": 100, "unembedding": 100, "query": 100, "key": 100, "value": 100, "output": 25}.items():
        entries = _arrays(net)[name].ravel()
        # 2500 entries or more: the deviation is known to 1.4%, taken four times.
        assert entries.std() == pytest.approx(inputs**-gamma, rel=0.057)
        assert abs(entries.mean()) <= 4.0 * inputs**-gamma / np.sqrt(entries.size)


def test_a_seed_is_the_same_network_alone_and_among_others(law):
    alone, among = feed_forward_net(law, StairInit((4,), width=5, gamma=0.5)), feed_forward_net(law, INIT)
    for name, value in _arrays(alone).items():
        assert np.array_equal(value[0], _arrays(among)[name][1])
        assert not np.array_equal(value[0], _arrays(among)[name][0])


def test_tables_differ_in_what_is_trained_and_share_the_rest(law):
    signature = label_signature(law, order=1).values
    trained, fixed = (feed_forward_net(law, INIT, table=kind) for kind in ("trained", "fixed"))
    signed = feed_forward_net(law, INIT, table="signature", signature=signature)
    assert torch.equal(trained.table(), fixed.table())
    assert torch.equal(trained.unembedding, signed.unembedding)
    names = [{name for name, value in net.named_parameters() if value.requires_grad} for net in (trained, fixed, signed)]
    assert names == [{"table.rows", "unembedding"}, {"unembedding"}, {"table.scale", "unembedding"}]


def test_signature_rows_are_a_fixed_map_of_one_contraction(law):
    signature = label_signature(law, order=1).values
    table = feed_forward_net(law, INIT, table="signature", signature=signature).table
    rows = table().detach().double().numpy()
    assert np.sqrt((rows[:, :6] ** 2).mean(axis=(1, 2))) == pytest.approx([5**-0.5] * 2)
    assert not rows[:, 6].any()
    for s, seed in enumerate(INIT.seeds):
        random = np.random.default_rng([seed, 2])
        heads = np.einsum("avb,b->av", signature, random.normal(size=7))
        expected = heads @ random.normal(size=(4, 5))
        np.testing.assert_allclose(rows[s] * expected[0, 0] / rows[s, 0, 0], expected, atol=1e-5)


def test_the_gradient_is_the_sum_of_the_orders_of_signatures(law):
    """Uniform predictions are those of a vanishing U: the rest is of the second order in it."""
    net = feed_forward_net(law, INIT, activation=3).double()
    with torch.no_grad():
        net.unembedding.mul_(1e-8)
    found, held = _descent(net, law), _arrays(net)
    labels, near = ([make(law, order=m).values for m in range(3)] for make in (label_signature, cooccurrence_signature))
    for s in range(2):
        theory = PolynomialNetwork(held["table.rows"][s], held["unembedding"][s], np.array([0.0, 0.0, 0.0, 1.0]), length=3)
        expected = (label_terms(theory, labels, token_frequency(law)) + prediction_terms(theory, near, token_frequency(law))).sum(axis=0)
        np.testing.assert_allclose(found[s], expected, atol=1e-6 * np.abs(expected).max())


def test_the_gradient_of_a_straight_network_is_the_drive_of_the_early_phase(law):
    net = feed_forward_net(law, INIT, activation="identity").double()
    with torch.no_grad():
        net.unembedding.mul_(1e-8)
    phase = EarlyPhase(label_signature(law, order=0).values, token_frequency(law), length=3)
    expected = phase.drive @ _arrays(net)["unembedding"]
    np.testing.assert_allclose(_descent(net, law), expected, atol=1e-6 * np.abs(expected).max())


def test_the_gradient_of_attention_is_value_key_and_query(law):
    net = attention_net(law, StairInit((3, 4), width=5, gamma=0.0), key_width=2).double()
    with torch.no_grad():
        net.unembedding.mul_(1e-8)
    found, held = _descent(net, law), _arrays(net)
    for s in range(2):
        layer = attention_flow.AttentionLayer(
            held["table.rows"][s], held["unembedding"][s], held["key"][s].T @ held["query"][s], held["output"][s] @ held["value"][s]
        )
        expected = attention_flow.attention_label_terms(layer, law.tokens, law.labels, law.chances).total
        expected = expected + attention_flow.attention_prediction_terms(layer, law.tokens, law.chances).total
        np.testing.assert_allclose(found[s], expected, atol=1e-6 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda law: StairInit(seeds=()), r"seeds are \[\]"),
        (lambda law: StairInit(seeds=(1, 1)), r"seeds are \[1, 1\].*different seeds"),
        (lambda law: StairInit(seeds=(1,), width=0), "width is 0"),
        (lambda law: feed_forward_net(law, INIT, activation=0), "activation is 0; expected 'relu', 'identity' or a power of at least 1"),
        (lambda law: feed_forward_net(law, INIT, activation="tanh"), "activation is 'tanh'"),
        (lambda law: feed_forward_net(law, INIT, table="signature"), "table is 'signature' and signature absent"),
        (lambda law: feed_forward_net(law, INIT, signature=np.ones((7, 4, 7))), "table is 'trained' and signature given"),
        (lambda law: attention_net(law, INIT, key_width=0), "key_width is 0"),
    ],
)
def test_what_does_not_fit_is_refused(law, make, words):
    with pytest.raises(InputError, match=words):
        make(law)
