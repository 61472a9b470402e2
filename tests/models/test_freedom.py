from __future__ import annotations

import numpy as np
import pytest
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Dense, Pooling
from torch import nn

from normwise.core.config import RadialHeadConfig
from normwise.models.freedom import norm_freedom, terminal_norm
from normwise.models.loading import add_radial_head
from normwise.models.probe import PROBE_TEXTS, probe_vectors


def dense(weight, bias=None):
    return Dense(
        weight.shape[1], weight.shape[0], bias=bias is not None, activation_function=nn.Identity(), init_weight=weight, init_bias=bias
    )


def test_whole_all_minilm_is_plane_bound_and_the_identity_is_exact(make_small):
    st = make_small(layers=None)
    layer = st[0].model.encoder.layer[-1].output.LayerNorm
    gain, bias = layer.weight.detach().double().numpy(), layer.bias.detach().double().numpy()
    vectors = probe_vectors(st).astype(np.float64)
    # sum_i z_i / g_i = sum_i b_i / g_i for every text, and the norm comes back from the unit vector.
    sums, constant = (vectors / gain).sum(axis=1), (bias / gain).sum()
    assert np.max(np.abs(sums / constant - 1)) < 1e-5
    norms = np.linalg.norm(vectors, axis=1)
    directions = (vectors / norms[:, None]).astype(np.float32).astype(np.float64)
    assert np.max(np.abs(constant / (directions / gain).sum(axis=1) / norms - 1)) < 1e-5
    report = norm_freedom(st)
    assert report.name == "norm_freedom"
    assert not report.passed
    assert report.words.startswith("plane-bound")
    assert report.figures["constant"] == pytest.approx(constant, rel=1e-9)
    assert report.figures["closed_form_error"] < 1e-5
    assert report.figures["radial_freedom"] < 1e-6
    assert report.figures["norm_mean"] == pytest.approx(norms.mean())
    assert report.figures["norm_cv"] == pytest.approx(norms.std() / norms.mean())


@pytest.mark.parametrize("pooling", ["cls", "lasttoken", "weightedmean"])
def test_every_average_over_tokens_keeps_the_plane(make_small, pooling):
    st = make_small()
    st = SentenceTransformer(modules=[st[0], Pooling(384, pooling)], device="cpu")
    assert norm_freedom(st).words.startswith("plane-bound")


@pytest.mark.parametrize("pooling", ["max", "mean_sqrt_len_tokens"])
def test_other_poolings_have_no_closed_form(make_small, pooling):
    st = make_small()
    st = SentenceTransformer(modules=[st[0], Pooling(384, pooling)], device="cpu")
    report = norm_freedom(st)
    assert report.passed
    assert report.figures["closed_form_error"] is None


def test_a_projection_to_fewer_dimensions_frees_the_norm(make_small):
    st = make_small()
    add_radial_head(st, RadialHeadConfig(dimensions=383))
    report = norm_freedom(st)
    assert report.passed
    assert "breaks the tie" in report.words


@pytest.mark.parametrize("with_bias", [False, True])
def test_a_full_rank_map_keeps_a_plane(make_small, with_bias):
    st = make_small()
    torch.manual_seed(3)
    st.append(dense(nn.init.orthogonal_(torch.empty(384, 384)) * 2, torch.randn(384) if with_bias else None))
    report = norm_freedom(st)
    assert not report.passed
    assert report.words.startswith("plane-bound")
    assert report.figures["closed_form_error"] < 1e-4


def test_a_projection_that_keeps_the_normal_does_not_free_the_norm(make_small):
    # Fewer dimensions are not enough by themselves: rows that contain the plane's normal keep it.
    st = make_small()
    gain = st[0].model.encoder.layer[-1].output.LayerNorm.weight.detach()
    torch.manual_seed(4)
    st.append(dense(torch.cat([(1 / gain)[None] / (1 / gain).norm(), torch.randn(15, 384) / 20])))
    assert norm_freedom(st).words.startswith("plane-bound")


def test_a_nonlinear_head_has_no_closed_form(make_small):
    st = make_small()
    st.append(Dense(384, 384))
    assert norm_freedom(st).passed


def test_one_token_of_an_rmsnorm_lies_on_an_ellipsoid(make_decoder):
    st = make_decoder("lasttoken")
    gain = st[0].model.norm.weight.detach().double().numpy()
    vectors = probe_vectors(st).astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    # r = sqrt(D) / || hat z / g ||
    predicted = np.sqrt(32) / np.linalg.norm(vectors / norms[:, None] / gain, axis=1)
    report = norm_freedom(st)
    assert not report.passed
    assert report.words.startswith("ellipsoid-bound")
    assert report.figures["closed_form_error"] == pytest.approx(np.max(np.abs(predicted / norms - 1)), rel=1e-6, abs=1e-12)
    assert report.figures["closed_form_error"] < 1e-3


def test_the_mean_of_rmsnorm_tokens_is_free(make_decoder):
    assert norm_freedom(make_decoder("mean")).passed


def test_an_injective_map_keeps_the_ellipsoid_and_a_projection_fills_it(make_decoder):
    torch.manual_seed(5)
    wide = make_decoder()
    wide.append(dense(torch.randn(48, 32)))
    assert norm_freedom(wide).words.startswith("ellipsoid-bound")
    narrow = make_decoder()
    narrow.append(dense(torch.randn(31, 32)))
    assert "breaks the tie" in norm_freedom(narrow).words


def test_a_normalize_module_leaves_no_norm(make_small):
    st = make_small()
    st.append(Normalize())
    report = norm_freedom(st)
    assert not report.passed
    assert report.words.startswith("unit")


def test_the_terminal_norm_is_read_off_the_run(make_small, make_decoder):
    found = terminal_norm(make_small(), PROBE_TEXTS[:3])
    assert found is not None
    assert found.centered
    assert found.name.endswith("LayerNorm")
    decoder = make_decoder()
    rms = terminal_norm(decoder, PROBE_TEXTS[:3])
    assert rms is not None
    assert not rms.centered
    np.testing.assert_array_equal(rms.gain, decoder[0].model.norm.weight.detach().double().numpy())


def test_a_closed_form_that_does_not_hold_is_not_claimed(make_small, monkeypatch):
    st = make_small()
    real = probe_vectors(st)
    monkeypatch.setattr("normwise.models.freedom.probe_vectors", lambda *_: real * np.linspace(1, 2, len(real))[:, None])
    report = norm_freedom(st)
    assert report.passed
    assert "does not bind" in report.words


def test_the_report_leaves_the_model_as_it_was(make_small):
    st = make_small()
    st.train()
    norm_freedom(st)
    assert st.training
    assert not any(module._forward_hooks for module in st.modules())


def test_a_gain_of_zero_fixes_its_coordinate(make_small):
    st = make_small()
    layer = st[0].model.encoder.layer[-1].output.LayerNorm
    with torch.no_grad():
        layer.weight[[3, 7]] = 0.0
        layer.bias[3] = 0.0
        layer.bias[7] = 0.25
    report = norm_freedom(st)
    assert report.words.startswith("plane-bound")
    assert report.figures["constant"] == pytest.approx(0.25)
    with torch.no_grad():
        layer.bias[7] = 0.0
    assert norm_freedom(st).passed


def test_a_layernorm_without_bias_is_free_under_mean_pooling_and_bound_for_one_token(make_small):
    st = make_small()
    with torch.no_grad():
        st[0].model.encoder.layer[-1].output.LayerNorm.bias.zero_()
    # The plane then runs through the origin and says nothing about the norm.
    assert norm_freedom(st).passed
    assert norm_freedom(SentenceTransformer(modules=[st[0], Pooling(384, "cls")], device="cpu")).words.startswith("ellipsoid-bound")
