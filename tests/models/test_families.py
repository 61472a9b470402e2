"""Every family that the page "works with" names runs through loading, the norm's closed form, recovery, encoding and saving.

The weights are random and the architectures real; what is compared is each model with itself, or with the equation that
its own last norm layer gives.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from peft import LoraConfig as PeftLoraConfig
from peft import PeftModel, get_peft_model
from PIL import Image
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules.normalize import Normalize
from sentence_transformers.sentence_transformer.modules import Pooling
from tiny_families import FAMILIES, save_family

from normwise.core.config import ModelConfig, StageConfig
from normwise.core.errors import InputError
from normwise.data.sets import Corpus, TrainingPairs
from normwise.models.encoder import Encoder
from normwise.models.freedom import norm_freedom, terminal_norm
from normwise.models.loading import load_base, load_plain
from normwise.models.lora import lora_targets
from normwise.models.probe import PROBE_TEXTS, probe_vectors
from normwise.models.recovery import recover_norms
from normwise.models.structure import count_layers
from normwise.training.stage import StageRun, train_stage
from normwise.workflows.inspect import inspect

# For each family, the layer that its vectors come from and what it makes of the norm.
ENDINGS = {
    "clip": ("text_model.final_layer_norm", "plane-bound"),
    "metaclip": ("text_model.final_layer_norm", "plane-bound"),
    "albert": ("encoder.albert_layer_groups.0.albert_layers.0.full_layer_layer_norm", "plane-bound"),
    "distilbert": ("transformer.layer.1.output_layer_norm", "plane-bound"),
    "distilbert-cls": ("transformer.layer.1.output_layer_norm", "plane-bound"),
    "e5": ("encoder.layer.1.output.LayerNorm", "plane-bound"),
    "gte-bert": ("encoder.layer.1.output.LayerNorm", "plane-bound"),
    "gte-new": ("layers.1.post_mlp_layernorm", "plane-bound"),
    "gte-modernbert": ("final_norm", "ellipsoid-bound"),
    "jina-v3": ("layers.1.post_mlp_layernorm", "plane-bound"),
    "qwen3": ("norm", "ellipsoid-bound"),
}
TEXTS = [f"{word} {'and so on ' * (number % 4)}" for number, word in enumerate("cat dog river stone house tree bread cloud".split() * 5)]


@pytest.fixture(scope="session")
def family_folder(tmp_path_factory):
    folders = {}

    def folder(name, dtype=torch.float32):
        if (name, dtype) not in folders:
            folders[name, dtype] = save_family(name, tmp_path_factory.mktemp(name), dtype=dtype)
        return folders[name, dtype]

    return folder


@pytest.fixture
def open_family(family_folder):
    def open_it(name, dtype=torch.float32):
        return load_plain(str(family_folder(name, dtype)), device="cpu").model

    return open_it


def quietly(folder, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Encoder.load(folder, device="cpu", **settings)


def split(vectors):
    norms = np.linalg.norm(vectors.astype(np.float64), axis=1)
    return (vectors / norms[:, None]).astype(np.float32), norms


def pictures(count=5):
    generator = np.random.default_rng(0)
    return [Image.fromarray(generator.integers(0, 256, (40, 50, 3), dtype=np.uint8)) for _ in range(count)]


def test_every_family_has_an_expected_ending():
    assert set(ENDINGS) == set(FAMILIES)


@pytest.mark.parametrize("name", FAMILIES)
def test_the_ending_is_found_and_its_equation_holds(open_family, name):
    st = open_family(name)
    layer, kind = ENDINGS[name]
    report = norm_freedom(st)
    assert report.words.startswith(kind)
    assert not report.passed
    found = terminal_norm(st, PROBE_TEXTS[:4])
    assert found is not None
    assert found.name == layer
    vectors = probe_vectors(st, PROBE_TEXTS).astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    assert norms.std() / norms.mean() > 0.02
    # The equation again, one vector at a time, from the layer's own weights.
    module = st[0].model.get_submodule(layer)
    gain = module.weight.detach().double().numpy()
    bias = None if getattr(module, "bias", None) is None else module.bias.detach().double().numpy()
    back = np.linalg.inv(st[0].model.text_projection.weight.detach().double().numpy()) if "clip" in name else np.eye(len(gain))
    for vector, norm in zip(vectors, norms, strict=True):
        scaled = (back @ (vector / norm)) / gain
        predicted = np.sqrt(len(gain)) / np.linalg.norm(scaled) if bias is None else (bias / gain).sum() / scaled.sum()
        assert predicted == pytest.approx(norm, rel=1e-4)
    assert report.figures["closed_form_error"] < 1e-4


@pytest.mark.parametrize("name", FAMILIES)
def test_norms_come_back_from_unit_vectors(open_family, name):
    st = open_family(name)
    unit, norms = split(probe_vectors(st, PROBE_TEXTS))
    found = recover_norms(unit, st)
    error = np.abs(found.norms / norms - 1).max()
    assert error < 1e-4
    assert error <= found.bound + found.model_error
    assert found.words.startswith(ENDINGS[name][1])


@pytest.mark.parametrize("name", FAMILIES)
def test_a_saved_encoder_loads_and_answers_as_before(family_folder, tmp_path, name):
    encoder = quietly(family_folder(name))
    raw = encoder.encode_candidates(TEXTS[:6])
    plain = SentenceTransformer(str(family_folder(name)), device="cpu", local_files_only=True)
    normalized = isinstance(plain[len(plain) - 1], Normalize)
    assert normalized == FAMILIES[name].normalized
    expected = plain.encode(TEXTS[:6])
    np.testing.assert_allclose(split(raw)[0] if normalized else raw, expected, atol=2e-5)
    encoder.save(tmp_path / "saved")
    again = Encoder.load(tmp_path / "saved", device="cpu")
    np.testing.assert_allclose(again.encode_candidates(TEXTS[:6]), raw, atol=2e-5)
    np.testing.assert_allclose(again.encode_queries(TEXTS[:6]), encoder.encode_queries(TEXTS[:6]), atol=2e-5)


@pytest.mark.parametrize("name", FAMILIES)
def test_inspect_tells_the_closed_form(family_folder, name):
    report = inspect(str(family_folder(name)), texts=TEXTS)
    assert report.n == len(TEXTS)
    assert report.radial.closed_form == report.regime == ENDINGS[name][1]
    assert not report.normalized_input
    assert (report.norm_after_normalize is not None) == FAMILIES[name].normalized


def test_half_precision_does_not_hide_a_closed_form(open_family):
    st = open_family("e5", torch.bfloat16)
    before = {key: value.clone() for key, value in st.state_dict().items()}
    assert next(st.parameters()).dtype == torch.bfloat16
    report = norm_freedom(st)
    assert report.words.startswith("plane-bound")
    assert "in float32; as it was loaded, bfloat16 rounds its vectors off it by up to 0.0" in report.words
    # What its own vectors miss the form by is still what is reported as its error.
    assert 1e-3 < report.figures["closed_form_error"] < 0.1
    assert report.figures["radial_freedom"] < 1e-6
    after = st.state_dict()
    assert all(after[key].dtype == value.dtype and torch.equal(after[key], value) for key, value in before.items())


class TestTwoTowers:
    def test_images_have_norms_of_their_own(self, family_folder):
        encoder = quietly(family_folder("clip"))
        vectors = encoder.encode_images(pictures())
        assert vectors.shape == (5, encoder.dimensions)
        assert np.linalg.norm(vectors, axis=1).std() > 0.01
        plain = SentenceTransformer(str(family_folder("clip")), device="cpu", local_files_only=True)
        np.testing.assert_allclose(vectors, plain.encode(pictures()), atol=1e-5)
        assert encoder.encode_images([]).shape == (0, encoder.dimensions)
        report = inspect(encoder.encode_images(pictures(40)))
        assert (report.n, report.normalized_input) == (40, False)

    def test_the_image_tower_projects_to_fewer_dimensions_and_is_free(self, open_family):
        st = open_family("clip")
        report = norm_freedom(st, texts=pictures())
        assert report.passed
        assert "one token of a LayerNorm, then a projection that breaks the tie" in report.words
        found = terminal_norm(st, pictures(2))
        assert found is not None
        assert found.name == "vision_model.post_layernorm"

    def test_a_text_tower_that_projects_to_fewer_dimensions_is_free(self, open_family):
        st = open_family("clip")
        torch.manual_seed(1)
        st[0].model.text_projection = torch.nn.Linear(32, 24, bias=False)
        report = norm_freedom(st)
        assert report.passed
        assert "projection that breaks the tie" in report.words
        with pytest.raises(InputError, match="norms cannot be recovered from this model's unit vectors: free: .*breaks the tie"):
            recover_norms(split(probe_vectors(st, PROBE_TEXTS))[0], st)

    def test_an_image_tower_that_keeps_its_width_is_bound(self, open_family):
        st = open_family("clip")
        torch.manual_seed(1)
        st[0].model.visual_projection = torch.nn.Linear(48, 50, bias=False)
        report = norm_freedom(st, texts=pictures())
        assert report.words.startswith("plane-bound")
        assert report.figures["closed_form_error"] < 1e-3

    def test_what_is_no_image_is_refused(self, family_folder):
        with pytest.raises(InputError, match=r"reads text, not images: choose a model such as CLIP"):
            quietly(family_folder("albert")).encode_images(pictures(1))
        with pytest.raises(InputError, match=r"images\[1\] must be a PIL image, a path or a Picture, got str: open it"):
            quietly(family_folder("clip")).encode_images([*pictures(1), "cat.png"])
        with pytest.raises(InputError, match="batch_size must be at least 1, got 0"):
            quietly(family_folder("clip")).encode_images(pictures(1), batch_size=0)

    def test_long_texts_are_cut_at_the_positions_there_are(self, family_folder):
        loaded = load_plain(str(family_folder("clip")), device="cpu")
        assert loaded.model.max_seq_length == 48
        assert "texts are cut at 48 tokens, for which it has positions" in loaded.notes
        with pytest.raises(InputError, match="max_tokens = 49, but the model has 48 positions"):
            load_base(ModelConfig(name=str(family_folder("clip")), max_tokens=49), device="cpu")

    def test_a_cut_and_adapters_leave_the_image_tower_alone(self, family_folder):
        st = load_base(ModelConfig(name=str(family_folder("clip")), layers=1), device="cpu")
        assert count_layers(st) == 1
        assert len(st[0].model.vision_model.encoder.layers) == 2
        targets = lora_targets(st, StageConfig.model_validate({"name": "a", "temperature": 1, "trainable": "lora"}).lora_settings)
        assert "text_projection" in targets
        assert not [name for name in targets if "vis" in name]


def test_shared_layers_cannot_be_cut(family_folder):
    with pytest.raises(InputError, match=r"cannot find a list of layers in AlbertModel \(shared layers\?\)"):
        load_base(ModelConfig(name=str(family_folder("albert")), layers=1), device="cpu")


class TestPrompts:
    def test_prompts_of_a_config_are_put_before_texts(self, family_folder):
        config = ModelConfig(name=str(family_folder("e5")), query_prompt="query: ", candidate_prompt="passage: ")
        encoder = Encoder(load_base(config, device="cpu"))
        np.testing.assert_allclose(encoder.encode_queries(["cat"]), encoder.model.encode(["query: cat"]), atol=1e-5)
        np.testing.assert_allclose(encoder.encode_candidates(["cat"]), encoder.model.encode(["passage: cat"]), atol=1e-5)
        assert (encoder.contract.query_prompt, encoder.contract.candidate_prompt) == ("query: ", "passage: ")

    @pytest.mark.parametrize(("query", "document"), [("query", "passage"), ("retrieval.query", "retrieval.passage")])
    def test_prompts_under_other_names_are_used(self, open_family, tmp_path, query, document):
        st = open_family("e5")
        named = SentenceTransformer(modules=list(st.children()), device="cpu", prompts={query: "Q: ", document: "P: "})
        named.save(str(tmp_path / "named"), create_model_card=False)
        # The library alone looks for "document" and finds the empty prompt that it put there itself.
        plain = SentenceTransformer(str(tmp_path / "named"), device="cpu", local_files_only=True)
        np.testing.assert_allclose(plain.encode_document(["cat"]), plain.encode(["cat"]), atol=1e-6)
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            encoder = Encoder.load(tmp_path / "named", device="cpu")
        assert any(f"its prompt {document!r} ('P: ') is put before each document" in str(warning.message) for warning in said)
        np.testing.assert_allclose(encoder.encode_queries(["cat"]), st.encode(["Q: cat"]), atol=1e-5)
        np.testing.assert_allclose(encoder.encode_candidates(["cat"]), st.encode(["P: cat"]), atol=1e-5)
        assert encoder.contract.candidate_prompt == "P: "
        encoder.save(tmp_path / "saved")
        np.testing.assert_allclose(Encoder.load(tmp_path / "saved").encode_candidates(["cat"]), st.encode(["P: cat"]), atol=1e-5)

    def test_an_instruction_goes_before_queries_only_and_the_last_token_is_read(self, family_folder):
        encoder = quietly(family_folder("qwen3"))
        prompt = FAMILIES["qwen3"].prompts["query"]
        np.testing.assert_allclose(encoder.encode_queries(["cat"]), encoder.model.encode([f"{prompt}cat"]), atol=1e-5)
        np.testing.assert_allclose(encoder.encode_candidates(["cat"]), encoder.model.encode(["cat"]), atol=1e-5)
        # Padding stands on the left, so a short text in a long batch keeps its own last token.
        together = encoder.encode_candidates(["cat", "a much longer text beside it " * 3])
        np.testing.assert_allclose(together[:1], encoder.encode_candidates(["cat"]), atol=1e-4)


class TestTaskAdapters:
    def test_each_task_merges_into_an_encoder_of_its_own(self, open_family, tmp_path):
        base, answers = probe_vectors(open_family("jina-v3")), {}
        for seed, task in enumerate(("retrieval_query", "classification")):
            adapter = open_family("jina-v3")[0].model
            torch.manual_seed(seed)
            # The adapters of the real checkpoint reach the linear maps; B is drawn too, since a trained one is not zero.
            get_peft_model(adapter, PeftLoraConfig(r=2, target_modules=["q_proj", "v_proj"], init_lora_weights=False)).save_pretrained(
                str(tmp_path / task)
            )
            st = open_family("jina-v3")
            st[0].model = PeftModel.from_pretrained(st[0].model, str(tmp_path / task)).merge_and_unload()
            Encoder(st, similarity="cosine").save(tmp_path / f"{task}-merged")
            again = Encoder.load(tmp_path / f"{task}-merged", device="cpu").model
            answers[task] = probe_vectors(again)
            report = norm_freedom(again)
            assert report.words.startswith("plane-bound")
            unit, norms = split(answers[task])
            # An adapter moves the vectors within the hyperplane: the base model's equation still gives their norms.
            np.testing.assert_allclose(recover_norms(unit, open_family("jina-v3")).norms, norms, rtol=1e-4)
        assert np.abs(answers["retrieval_query"] - base).max() > 0.1
        assert np.abs(answers["retrieval_query"] - answers["classification"]).max() > 0.1

    def test_an_unmerged_adapter_says_what_to_do(self, open_family, tmp_path):
        get_peft_model(open_family("jina-v3")[0].model, PeftLoraConfig(r=2, target_modules=["q_proj"])).save_pretrained(str(tmp_path))
        with pytest.raises(InputError, match="holds an adapter, not a whole model: merge it into its base model and save that"):
            load_plain(str(tmp_path))


def pairs():
    texts = tuple(f"text about {word} {number}" for number, word in enumerate(TEXTS[:8]))
    return TrainingPairs(
        queries=tuple(f"find {text}" for text in texts),
        positives=np.arange(8, dtype=np.int64),
        negatives=tuple(() for _ in texts),
        corpus=Corpus(ids=tuple(map(str, range(8))), contents=texts),
        clusters=np.arange(8, dtype=np.int64),
    )


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{"trainable": "full"}, {"trainable": "lora", "lora": {"rank": 2}}], ids=["full", "lora"])
@pytest.mark.parametrize("name", FAMILIES)
def test_one_stage_moves_every_part_that_texts_pass_through(family_folder, tmp_path, name, settings):
    st = load_base(ModelConfig(name=str(family_folder(name)), max_tokens=32), device="cpu")
    before = probe_vectors(st, TEXTS[:4])
    stage = StageConfig.model_validate({"name": "s", "temperature": 0.1, "batch_size": 4, "steps": 2, "learning_rate": 1e-2, **settings})
    run = StageRun(pairs=pairs(), plan=lambda stage, batches, seed: [np.arange(4)] * batches, seed=0)
    # A tensor that was to be trained and did not move is an error there.
    result = train_stage(st, stage, run, tmp_path / "checkpoints")
    assert len(result.curve) == 2
    assert np.isfinite(result.curve[-1]["loss"])
    assert np.abs(probe_vectors(st, TEXTS[:4]) - before).max() > 1e-3


def test_pooling_is_what_the_family_has(open_family):
    for name, family in FAMILIES.items():
        modes = [module.pooling_mode for module in open_family(name).children() if isinstance(module, Pooling)]
        assert modes == ([] if family.pooling is None else [family.pooling])
