"""A saved model in MTEB, by MTEB's own loader and the model's own similarity: texts, pictures, both; small tasks made here."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from sentence_transformers import SentenceTransformer

sys.path.insert(0, str(Path(__file__).parents[1] / "models"))
pytest.importorskip("mteb", reason="mteb is not installed")

import mteb
from datasets import Dataset, DatasetDict
from mteb.abstasks.classification import AbsTaskClassification
from mteb.abstasks.retrieval import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.abstasks.zeroshot_classification import AbsTaskZeroShotClassification
from mteb.models import SentenceTransformerEncoderWrapper
from tiny_picture_families import DUAL, save_picture_family, tiny_text

from normwise.data.contents import compose
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged
from normwise.models.encoder import Encoder
from normwise.models.loading import load_plain
from normwise.theory.directions import normalize
from normwise.workflows.evaluate import evaluate

# MTEB warns of its own ways.
OWN_WARNINGS = ["The fill_missing parameter is deprecated", "The `get_sentence_embedding_dimension` method has been renamed"]
pytestmark = [pytest.mark.slow, *(pytest.mark.filterwarnings(f"ignore:{words}") for words in OWN_WARNINGS)]

COUNT = 16
WORDS = "red green blue dark light round square wide".split()
TEXTS = [f"{WORDS[row % 8]} {'thing and so on ' * (row % 3)}{row}" for row in range(COUNT)]
QUESTIONS = [f"what is {WORDS[(row * 3) % 8]}? {row}" for row in range(COUNT)]
CHANGES = [f"the same but {WORDS[(row * 5) % 8]}" for row in range(COUNT)]
LABELS = ["a dark picture", "a light picture"]
METRICS = {"ndcg@10": "ndcg_at_10", "recall@1": "recall_at_1", "recall@10": "recall_at_10", "mrr@10": "mrr_at_10"}
PICTURE_MODELS = ("clip", DUAL, "qwen3-vl")
SETTINGS = {"cache": None, "co2_tracker": False, "show_progress_bar": False}


def pictures(count=COUNT, *, seed=0):
    """Noise over colored halves, of three sizes; every second one is dark."""
    generator = np.random.default_rng(seed)
    shown = []
    for row in range(count):
        light, height = (0 if row % 2 else 120), 36 + 4 * (row % 3)
        noise = generator.integers(0, 16 * (row % 4 + 1), (height, 40, 3))
        noise[: height // 2] += generator.integers(0, 70, 3)
        noise[:, :20] += generator.integers(0, 70, 3)
        shown.append(Image.fromarray(np.clip(noise // 2 + light, 0, 255).astype(np.uint8)))
    return shown


SIDES = {
    "t": lambda seed: {"text": QUESTIONS if seed else TEXTS},
    "i": lambda seed: {"image": pictures(seed=seed)},
    "it": lambda seed: {"image": pictures(seed=seed), "text": CHANGES},
}
MODALITIES = {"t": ["text"], "i": ["image"], "it": ["image", "text"]}


def metadata(name, *, kind, category, modalities, score):
    return TaskMetadata(
        name=name,
        description="made in a test",
        type=kind,
        dataset={"path": "none/none", "revision": "none"},
        category=category,
        modalities=modalities,
        eval_splits=["test"],
        eval_langs=["eng-Latn"],
        main_score=score,
    )


def retrieval(category, answers):
    """A task of MTEB whose query i asks for candidate `answers[i]`."""
    left, right = category.split("2")
    modalities = sorted({*MODALITIES[left], *MODALITIES[right]})
    kind = "Retrieval" if category == "t2t" else "Any2AnyRetrieval"

    class Task(AbsTaskRetrieval):
        metadata = globals()["metadata"](f"Made-{category}", kind=kind, category=category, modalities=modalities, score="ndcg_at_10")

        def load_data(self, num_proc=None, **kwargs):
            split = {
                "queries": Dataset.from_dict({"id": [f"q{row}" for row in range(COUNT)], **SIDES[left](1)}),
                "corpus": Dataset.from_dict({"id": [f"d{row}" for row in range(COUNT)], **SIDES[right](0)}),
                "relevant_docs": {f"q{row}": {f"d{answer}": 1} for row, answer in enumerate(answers)},
                "top_ranked": None,
            }
            self.dataset = {"default": {"test": split}}
            self.data_loaded = True

    return Task()


def contents(side, seed):
    columns = SIDES[side](seed)
    shown = [Picture.of_image(image, name=f"{row}") for row, image in enumerate(columns.get("image", ()))]
    texts = columns.get("text", [None] * COUNT)
    return tuple(compose(text, (shown[row],) if shown else ()) for row, text in enumerate(texts))


def judged(category, answers):
    left, right = category.split("2")
    corpus = Corpus(tuple(f"d{row}" for row in range(COUNT)), contents(right, 0))
    relevant = tuple({int(answer): 1.0} for answer in answers)
    return Judged(tuple(f"q{row}" for row in range(COUNT)), contents(left, 1), relevant, corpus, np.arange(COUNT))


def lifted(encoder, category):
    """For each query the candidate that gains most in nDCG@10 by its place under dot product over that under cosine, and its gain."""
    left, right = category.split("2")
    queries, candidates = encoder.encode_queries(contents(left, 1)), encoder.encode_candidates(contents(right, 0))
    places = [(-scores).argsort(1).argsort(1) for scores in (queries @ candidates.T, normalize(queries) @ normalize(candidates).T)]
    by_dot, by_cosine = (np.where(place < 10, 1 / np.log2(place + 2), 0.0) for place in places)
    return (by_dot - by_cosine).argmax(1), (by_dot - by_cosine).max(1)


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    """The folder of a model that normwise saved under a similarity, by (name, similarity)."""
    opened, folders = {}, {}

    def folder(name, similarity):
        if name not in opened:
            place = tmp_path_factory.mktemp(name)
            if name == "text":
                st = tiny_text(place)
                st.prompts = {"query": "find: ", "document": ""}
            else:
                st = load_plain(str(save_picture_family(name, place)), device="cpu").model
            opened[name] = st
        if (name, similarity) not in folders:
            out = tmp_path_factory.mktemp(f"{name}-{similarity}") / "model"
            Encoder(opened[name], similarity=similarity).save(out)
            folders[name, similarity] = out
        return folders[name, similarity]

    return folder


def plain(folder):
    """The model as MTEB takes it: opened by plain sentence-transformers; that it reads pictures is told to MTEB's own wrapper."""
    st = SentenceTransformer(str(folder), device="cpu", local_files_only=True)
    if "image" not in st.modalities:
        return st
    model = SentenceTransformerEncoderWrapper(st)
    model.mteb_model_meta = model.mteb_model_meta.model_copy(update={"modalities": ["image", "text"]})
    return model


def scores_of(model, task):
    found = mteb.evaluate(model, task, **SETTINGS)
    return found.task_results[0].scores["test"][0]


CASES = [
    ("text", "t2t"),
    *((name, category) for name in PICTURE_MODELS for category in ("t2i", "i2t")),
    ("clip", "i2i"),
    ("qwen3-vl", "it2i"),
]


@pytest.mark.parametrize(("name", "category"), CASES)
def test_retrieval_is_scored_by_the_models_own_similarity(saved, name, category):
    """The answers are those that long vectors lift, so that dot product must find them sooner than cosine does."""
    answers, gains = lifted(Encoder.load(saved(name, "dot"), device="cpu"), category)
    assert gains.mean() > 0.005
    main = {}
    for similarity in ("dot", "cosine"):
        folder = saved(name, similarity)
        scores = scores_of(plain(folder), retrieval(category, answers))
        own = evaluate(Encoder.load(folder, device="cpu"), judged(category, answers), similarity=similarity).similarities[similarity]
        for ours, theirs in METRICS.items():
            # MTEB rounds to 5 digits.
            assert scores[theirs] == pytest.approx(own[ours].mean, abs=1e-5), (similarity, ours)
        main[similarity] = scores["ndcg_at_10"]
    assert main["dot"] - main["cosine"] == pytest.approx(gains.mean(), abs=2e-5)


class ClassesOfPictures(AbsTaskClassification):
    """Dark and light pictures, told apart by a linear classifier on the vectors."""

    metadata = metadata("MadeClasses", kind="ImageClassification", category="i2c", modalities=["image"], score="accuracy")
    input_column_name = "image"
    samples_per_label, n_experiments = 4, 2

    def load_data(self, num_proc=None, **kwargs):
        label = [row % 2 for row in range(COUNT)]
        splits = {split: {"image": pictures(seed=seed), "label": label} for split, seed in (("train", 2), ("test", 3))}
        self.dataset = DatasetDict({split: Dataset.from_dict(columns) for split, columns in splits.items()})
        self.data_loaded = True


@pytest.mark.parametrize("name", PICTURE_MODELS)
def test_pictures_are_classified_on_raw_vectors(saved, name):
    seen = []
    model = plain(saved(name, "dot"))
    encode = model.encode

    def watched(*args, **kwargs):
        seen.append(encode(*args, **kwargs))
        return seen[-1]

    model.encode = watched
    assert scores_of(model, ClassesOfPictures())["accuracy"] > 0.7
    raw = Encoder.load(saved(name, "dot"), device="cpu").encode_candidates(pictures(seed=3))
    np.testing.assert_allclose(seen[-1], raw, atol=1e-4)
    assert np.abs(np.linalg.norm(raw, axis=1) - 1).min() > 0.05


class NamesOfPictures(AbsTaskZeroShotClassification):
    """Pictures classified by the names of the classes."""

    metadata = metadata("MadeNames", kind="ZeroShotClassification", category="i2t", modalities=["image", "text"], score="accuracy")

    def load_data(self, num_proc=None, **kwargs):
        columns = {"image": pictures(seed=3), "label": [row % 2 for row in range(COUNT)]}
        self.dataset = DatasetDict({"test": Dataset.from_dict(columns)})
        self.data_loaded = True

    def get_candidate_labels(self):
        return LABELS


@pytest.mark.parametrize("similarity", ["dot", "cosine"])
def test_zero_shot_classification_is_by_cosine_whatever_the_model_says(saved, similarity):
    """MTEB has a score of its own there: the guide says so."""
    encoder = Encoder.load(saved("clip", similarity), device="cpu")
    shown, names = encoder.encode_candidates(pictures(seed=3)), encoder.encode_candidates(LABELS)
    right = (normalize(shown) @ normalize(names).T).argmax(1) == np.arange(COUNT) % 2
    assert scores_of(plain(saved("clip", similarity)), NamesOfPictures())["accuracy"] == pytest.approx(right.mean(), abs=1e-5)


@pytest.mark.parametrize("name", ["clip", DUAL])
def test_left_to_itself_mteb_takes_every_open_model_for_one_of_texts(saved, name):
    """When this goes red, MTEB asks the model what it reads: `plain` and the guide can then leave the line out."""
    st = SentenceTransformer(str(saved(name, "dot")), device="cpu", local_files_only=True)
    assert SentenceTransformerEncoderWrapper(st).mteb_model_meta.similarity_fn_name.value == "dot"
    with pytest.raises(ValueError, match=r"supports \['text'\], but none overlap with task Made-i2i"):
        mteb.evaluate(st, retrieval("i2i", range(COUNT)), **SETTINGS)


@pytest.mark.parametrize("name", ["clip", DUAL])
def test_two_towers_read_no_text_and_picture_in_one_input_of_mteb(saved, name):
    """Their sum is normwise's: plain sentence-transformers, which MTEB calls, has no vector for such an input."""
    with pytest.raises(ValueError, match="image"):
        mteb.evaluate(plain(saved(name, "dot")), retrieval("it2i", range(COUNT)), **SETTINGS)
