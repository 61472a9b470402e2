"""Program code that a model brings along: never run unasked, refused with the risk and the flag named, run when asked."""

from __future__ import annotations

import json
import shutil
import warnings

import numpy as np
import pytest
from tiny_families import save_family

from normwise.core.config import ModelConfig
from normwise.core.errors import InputError
from normwise.models.encoder import Encoder
from normwise.models.freedom import norm_freedom
from normwise.models.loading import load_base, load_plain
from normwise.models.own_code import own_code
from normwise.models.probe import probe_vectors
from normwise.models.recovery import recover_norms

# Leaves a file behind, so that its having run can be seen.
MARK = """
import os
with open(os.environ["MARK_OF_CODE"], "a") as file:
    file.write("ran\\n")
"""
NEW_KIND = f"""{MARK}
from transformers import BertConfig, BertModel
class OwnConfig(BertConfig):
    model_type = "brand_new"
class OwnModel(BertModel):
    config_class = OwnConfig
"""
# A first module in the older form of the library, with one adapter per task and no knowledge of other tasks' names.
TASK_MODULE = f"""{MARK}
import torch
from transformers import AutoModel, AutoTokenizer
class TaskTransformer(torch.nn.Module):
    save_in_root = True
    def __init__(self, model_name_or_path, max_seq_length=None, model_args=None, tokenizer_args=None, config_args=None, **kwargs):
        super().__init__()
        self.auto_model = AutoModel.from_pretrained(model_name_or_path)
        self.tokenizer = AutoTokenizer.from_pretrained(model_name_or_path)
        self.max_seq_length = 100
        self._lora_adaptations = ["retrieval.query", "retrieval.passage", "separation"]
        self.config_keys = []
    def tokenize(self, texts, padding=True):
        return self.tokenizer(texts, padding=padding, truncation=True, max_length=self.max_seq_length, return_tensors="pt")
    def forward(self, features, task=None):
        if task and task not in self._lora_adaptations:
            raise ValueError(f"Unsupported task {{task!r}}")
        known = dict(features)
        if task:
            known["input_ids"] = torch.where(known["input_ids"] > 3, 4 + (known["input_ids"] + len(task)) % 200, known["input_ids"])
        features["token_embeddings"] = self.auto_model(**known).last_hidden_state
        return features
    @classmethod
    def load(cls, input_path):
        return cls(input_path)
"""


@pytest.fixture(scope="session")
def bert_folder(tmp_path_factory):
    return save_family("gte-bert", tmp_path_factory.mktemp("own"))


@pytest.fixture
def copy(bert_folder, tmp_path, monkeypatch):
    """A copy of the model to put code into; `ran` tells whether any of it ran."""
    mark = tmp_path / "mark"
    monkeypatch.setenv("MARK_OF_CODE", str(mark))
    monkeypatch.setattr("transformers.dynamic_module_utils.HF_MODULES_CACHE", str(tmp_path / "modules"))
    # Where nothing is asked on a terminal, a question would hang or be answered by chance.
    monkeypatch.setattr("builtins.input", lambda *_: pytest.fail("a question was asked"))
    folder = tmp_path / "model"
    shutil.copytree(bert_folder, folder)
    return folder, mark.exists


def change(path, **values):
    settings = json.loads(path.read_text())
    path.write_text(json.dumps({**settings, **values}))


def with_new_kind(folder):
    (folder / "own.py").write_text(NEW_KIND)
    change(folder / "config.json", model_type="brand_new", auto_map={"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"})


def with_task_module(folder):
    (folder / "own.py").write_text(TASK_MODULE)
    modules = json.loads((folder / "modules.json").read_text())
    modules[0] |= {"type": "own.TaskTransformer", "kwargs": ["task"]}
    (folder / "modules.json").write_text(json.dumps(modules))


def quietly(folder, **settings):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return Encoder.load(folder, device="cpu", **settings)


@pytest.mark.parametrize(("put", "names"), [(with_new_kind, r"own.OwnConfig, own.OwnModel"), (with_task_module, "own.TaskTransformer")])
def test_code_is_refused_by_name_risk_and_flag_and_does_not_run(copy, put, names):
    folder, ran = copy
    put(folder)
    message = rf"brings program code of its own \({names}\) and cannot be opened without it.*delete your files.*trust_remote_code.*choose"
    for opening in (load_plain, lambda name: load_base(ModelConfig(name=name)), Encoder.load):
        with pytest.raises(InputError, match=message):
            opening(str(folder))
    assert not ran()


def test_a_foreign_activation_is_refused_rather_than_replaced(copy):
    folder, ran = copy
    (folder / "own.py").write_text(MARK)
    dense = [{"idx": 2, "name": "2", "path": "2_Dense", "type": "sentence_transformers.models.Dense"}]
    (folder / "modules.json").write_text(json.dumps(json.loads((folder / "modules.json").read_text()) + dense))
    (folder / "2_Dense").mkdir()
    (folder / "2_Dense/config.json").write_text(json.dumps({"activation_function": "torch.nn.modules.linear.Identity"}))
    # A transformer's own setting of that name (GPT-2) is no code.
    change(folder / "config.json", activation_function="gelu_new")
    assert own_code(str(folder)) == ((), ())
    (folder / "2_Dense/config.json").write_text(json.dumps({"activation_function": "own.Swish"}))
    with pytest.raises(InputError, match=r"program code of its own \(own.Swish\)"):
        load_plain(str(folder))
    assert not ran()


def test_a_known_kind_opens_without_its_code_and_says_so(copy, bert_folder):
    folder, ran = copy
    (folder / "own.py").write_text(NEW_KIND)
    change(folder / "config.json", auto_map={"AutoConfig": "own.OwnConfig", "AutoModel": "own.OwnModel"})
    loaded = load_plain(str(folder), device="cpu")
    assert not ran()
    assert "was not run: transformers' own class of that model type was used" in loaded.notes[0]
    np.testing.assert_array_equal(probe_vectors(loaded.model), probe_vectors(load_plain(str(bert_folder), device="cpu").model))


def test_a_known_kind_whose_weights_do_not_fit_names_the_flag(copy):
    folder, ran = copy
    (folder / "own.py").write_text(NEW_KIND)
    change(folder / "config.json", num_hidden_layers=3, auto_map={"AutoModel": "own.OwnModel"})
    with pytest.raises(
        InputError, match=r"own.OwnModel\) and transformers' own class of that name cannot read it \(.*missing.*trust_remote_code"
    ):
        load_plain(str(folder))
    assert not ran()


def test_code_that_was_asked_for_runs_and_is_told(copy, bert_folder):
    folder, ran = copy
    with_new_kind(folder)
    loaded = load_plain(str(folder), device="cpu", trust_remote_code=True)
    assert ran()
    assert loaded.notes[0] == "program code that it brings along was run, as trust_remote_code says: own.OwnConfig, own.OwnModel"
    np.testing.assert_array_equal(probe_vectors(loaded.model), probe_vectors(load_plain(str(bert_folder), device="cpu").model))
    assert norm_freedom(loaded.model).words.startswith("plane-bound")
    st = load_base(ModelConfig(name=str(folder), trust_remote_code=True), device="cpu")
    np.testing.assert_array_equal(probe_vectors(st), probe_vectors(loaded.model))


def test_a_model_with_code_saves_and_loads_by_the_same_flag(copy, tmp_path):
    folder, _ = copy
    with_new_kind(folder)
    encoder = quietly(folder, trust_remote_code=True)
    encoder.save(tmp_path / "saved")
    again = Encoder.load(tmp_path / "saved", device="cpu", trust_remote_code=True)
    np.testing.assert_allclose(again.encode_queries(["cat"]), encoder.encode_queries(["cat"]), atol=1e-5)
    with pytest.raises(InputError, match="brings program code of its own"):
        Encoder.load(tmp_path / "saved")


class TestModuleWithTasks:
    def test_roles_become_its_tasks(self, copy):
        folder, ran = copy
        with_task_module(folder)
        encoder = quietly(folder, trust_remote_code=True)
        assert ran()
        queries, candidates = encoder.encode_queries(["cat", "a dog"]), encoder.encode_candidates(["cat", "a dog"])
        np.testing.assert_allclose(queries, encoder.model.encode(["cat", "a dog"], task="retrieval.query"), atol=1e-5)
        np.testing.assert_allclose(candidates, encoder.model.encode(["cat", "a dog"], task="retrieval.passage"), atol=1e-5)
        assert np.abs(queries - candidates).max() > 0.1
        with pytest.raises(ValueError, match="Unsupported task 'query'"):
            encoder.model.encode_query(["cat"])

    def test_its_closed_form_is_found_and_gives_norms_back(self, copy):
        folder, _ = copy
        with_task_module(folder)
        st = load_plain(str(folder), device="cpu", trust_remote_code=True).model
        assert norm_freedom(st).words.startswith("plane-bound")
        raw = st.encode(["cat", "a dog"], task="separation")
        norms = np.linalg.norm(raw.astype(np.float64), axis=1)
        np.testing.assert_allclose(recover_norms((raw / norms[:, None]).astype(np.float32), st).norms, norms, rtol=1e-4)

    def test_it_cannot_be_trained_since_it_could_not_be_saved(self, copy):
        folder, _ = copy
        with_task_module(folder)
        with pytest.raises(
            InputError, match=r"modules that plain sentence-transformers does not know \(TaskTransformer\).*inspect and encode only"
        ):
            load_base(ModelConfig(name=str(folder), trust_remote_code=True), device="cpu")


def test_what_a_folder_asks_for_is_read_from_its_files(copy):
    folder, _ = copy
    assert own_code(str(folder)) == ((), ())
    change(folder / "config.json", auto_map={"AutoModel": "own.OwnModel", "AutoModelForMaskedLM": "own.Other"})
    assert own_code(str(folder)) == ((), ("own.OwnModel",))
    change(folder / "config.json", model_type="brand_new")
    with_task_module(folder)
    assert own_code(str(folder)) == (("own.TaskTransformer", "own.OwnModel"), ())


def test_the_flag_is_off_is_no_text_and_is_written_only_where_it_is_on():
    assert ModelConfig().trust_remote_code is False
    assert "trust_remote_code" not in ModelConfig().model_dump()
    on = ModelConfig(trust_remote_code=True)
    assert ModelConfig.read(on.model_dump(mode="json")) == on
    with pytest.raises(InputError, match="trust_remote_code"):
        ModelConfig.read({"trust_remote_code": "yes"})
