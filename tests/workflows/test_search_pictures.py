"""Pictures calibrated, indexed and searched with a real dual encoder, trained here for a few steps on scikit-learn's digits.

Opening the encoder takes longer than what most tests do with it: where a test is not about that, it gets the open one.
"""

import json
import shutil

import numpy as np
import pytest
import torch
from PIL import Image
from typer.testing import CliRunner

from normwise.cli import app
from normwise.core.config import ModelConfig
from normwise.core.errors import InputError
from normwise.data.documents import read_documents
from normwise.data.pictures import Picture
from normwise.data.small_pictures import build_digits
from normwise.index.opening import open_index
from normwise.models.encoder import Encoder
from normwise.models.inputs import grouped_features
from normwise.models.loading import load_base
from normwise.report.hits_view import DirectionReport
from normwise.workflows import calibrate_finish
from normwise.workflows.build_index import build_index
from normwise.workflows.calibrate import calibrate
from normwise.workflows.calibrate_directions import parse_calibrations
from normwise.workflows.calibrate_files import choose_place
from normwise.workflows.change_index import add_to_index
from normwise.workflows.search import Searcher
from normwise.workflows.text_lengths import text_lengths

pytestmark = pytest.mark.slow
STEPS, BATCH = 12, 48


def train(st, pairs):
    """InfoNCE over the ten names, heads only."""
    for name, parameter in st.named_parameters():
        parameter.requires_grad_("linear" in name)
    optimizer = torch.optim.AdamW([each for each in st.parameters() if each.requires_grad], lr=5e-3)
    random = np.random.default_rng(0)

    def vectors(contents):
        [(_, features)] = grouped_features(st, contents, prompt=None)
        return torch.nn.functional.normalize(st(dict(features))["sentence_embedding"], dim=1)

    for _ in range(STEPS):
        rows = random.choice(len(pairs), BATCH, replace=False)
        scores = vectors([pairs.queries[row] for row in rows]) @ vectors(list(pairs.corpus.contents)).T
        loss = torch.nn.functional.cross_entropy(scores / 0.05, torch.as_tensor(pairs.positives[rows]))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return float(loss.detach())


@pytest.fixture(scope="module")
def digits():
    return build_digits()


@pytest.fixture(scope="module")
def model(tmp_path_factory, digits):
    folder = tmp_path_factory.mktemp("model") / "dual"
    st = load_base(ModelConfig(layers=1, max_tokens=16, vision={"dimensions": 32, "image_size": 32}))
    train(st.eval(), digits.train)
    Encoder(st.eval(), similarity="cosine").save(folder)
    return folder


@pytest.fixture(scope="module")
def encoder(model):
    return Encoder.load(model)


@pytest.fixture(scope="module")
def calibrated(tmp_path_factory, model, encoder):
    """An index of the ten names, and its calibration with a page."""
    folder = tmp_path_factory.mktemp("index")
    build_index(folder / "names", model=encoder, data="digits")
    places = {"index": folder / "names", "out": folder / "names" / "calibration.json", "report": folder / "page.html"}
    report = calibrate(model, "digits", precision=0.5, limit_queries=240, **places)
    return folder, report


def colored(path, color, size=(20, 14)):
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new("RGB", size, color).save(path)
    return path


@pytest.fixture(scope="module")
def shop(tmp_path_factory, encoder):
    """Three pictures, one of them with a text, and a lone text; and their index."""
    folder = tmp_path_factory.mktemp("shop")
    for name, color in (("red", (250, 20, 20)), ("green", (10, 220, 20)), ("blue", (10, 20, 240))):
        colored(folder / "pictures" / f"{name}.png", color)
    rows = [
        {"_id": "r", "image": "pictures/red.png"},
        {"_id": "g", "image": "pictures/green.png", "text": "a green field"},
        {"_id": "b", "image": "pictures/blue.png", "text": None},
        {"_id": "t", "text": "only words", "image": None},
    ]
    (folder / "shop.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_index(folder / "index", model=encoder, data=folder / "shop.jsonl")
    return folder


def test_a_calibration_of_pictures_says_its_direction_and_is_honest(calibrated):
    _, report = calibrated
    assert isinstance(report, DirectionReport)
    assert report.direction == "image -> text"
    own = next(row for row in report.calibrators if row.name == report.chosen)
    # Ten classes are ten clusters: the standard error of the choice is wide, so that a simple one is chosen that is not the best.
    assert own.ece < 0.2
    assert min(row.ece_debiased for row in report.calibrators if row.eligible) < 0.1
    assert own.intervals["auroc"].ci_low > 0.6
    assert report.queries.test > 200
    assert report.figures.confident_errors[0].query.startswith("[")
    assert report.shown.nearest
    assert report.shown.nearest[0].picture.startswith("data:image/")
    assert {row.name for row in report.signals}.isdisjoint({"query length"})


def test_its_page_shows_the_pictures_with_probability_and_i_dont_know(calibrated):
    folder, report = calibrated
    page = (folder / "page.html").read_text()
    assert 4 <= page.count("<img ") <= 40
    assert page.count("<img ") == page.count('src="data:image/')
    assert "Nearest hits" in page
    assert "I don’t know" in page
    assert report.shown.nearest[0].query in page.replace("<wbr>", "")
    assert len(page) < 600_000


def test_a_picture_finds_its_name_with_the_probability_of_its_direction(calibrated, digits):
    folder, _ = calibrated
    queries = list(digits.test.queries[:40])
    with Searcher.open(folder / "names") as searcher:
        found = searcher.search(queries, k=3)
    assert found.why_not_calibrated == ""
    assert np.isfinite(found.probabilities).all()
    right = [digits.test.corpus.ids.index(name) in grades for name, grades in zip(found.ids[:, 0], digits.test.relevance, strict=False)]
    assert np.mean(right) > 0.2
    assert found.hits(0)[0].query == f"[{queries[0].name}]"
    assert found.hits(0)[0].text in digits.test.corpus.texts


def test_a_direction_without_a_calibration_is_refused_in_words(calibrated, encoder):
    folder, _ = calibrated
    with Searcher.open(folder / "names", model=encoder) as searcher:
        found = searcher.search(["the number three"], k=2)
    assert np.isnan(found.probabilities).all()
    assert "calibrated for image -> text only, and this is text -> text" in found.why_not_calibrated
    assert found.hits(0)[0].reason.startswith("not calibrated: ")
    with (
        Searcher.open(folder / "names", model=encoder, calibration=folder / "names" / "calibration.json") as searcher,
        pytest.raises(InputError, match=r"is calibrated for image -> text only, and this is text -> text: calibrate on data"),
    ):
        searcher.search(["the number three"])


def test_of_mixed_queries_those_of_the_direction_have_probabilities(calibrated, encoder, digits):
    folder, _ = calibrated
    with Searcher.open(folder / "names", model=encoder) as searcher:
        mixed = searcher.search(["three", digits.test.queries[0], ("like", digits.test.queries[1])], k=2)
        alone = searcher.search([digits.test.queries[0]], k=2)
    assert np.isnan(mixed.probabilities).all(axis=1).tolist() == [True, False, True]
    np.testing.assert_allclose(mixed.probabilities[1], alone.probabilities[0], rtol=1e-4)
    assert mixed.ids[1].tolist() == alone.ids[0].tolist()
    assert mixed.hits(1)[0].reason == alone.hits(0)[0].reason
    [note] = mixed.notes
    assert "2 of 3 queries have no probabilities" in note
    assert "text+image -> text" in note
    with Searcher.open(folder / "names", model=encoder) as searcher:
        vectors = searcher.search(np.ones((1, 32), dtype=np.float32))
    assert "vectors do not tell theirs" in vectors.why_not_calibrated


def test_a_calibration_without_the_index_holds_for_it_too(calibrated, model, monkeypatch):
    """The hash of texts is the same, whoever read them; the file lies beside the model. What was fitted before is not fitted anew."""
    folder, report = calibrated
    before = parse_calibrations((folder / "names" / "calibration.json").read_bytes(), "calibration.json").of("image -> text")
    found = []

    def fitted_before(material, asked, goal, **more):
        found.append(material.fingerprint)
        return report, before.model_copy(update={"fingerprint": material.fingerprint})

    monkeypatch.setattr(calibrate_finish, "fit_calibration", fitted_before)
    calibrate(model, "digits", precision=0.5, limit_queries=20)
    assert found == [before.fingerprint]
    (folder / "names" / "calibration.json").rename(folder / "aside.json")
    try:
        with Searcher.open(folder / "names") as searcher:
            assert searcher.calibration is not None
    finally:
        (folder / "aside.json").rename(folder / "names" / "calibration.json")
    card = (model / "README.md").read_text()
    assert card.count("## Calibration") == 1
    assert any("was replaced" in note for note in choose_place(str(model), out=None, save=True).notes)


def test_an_index_of_pictures_keeps_words_and_digests_and_finds_them_again(shop, encoder):
    index = open_index(shop / "index")
    kept = dict(zip("rgbt", index.texts(list("rgbt")), strict=True))
    index.close()
    assert kept["t"] == "only words"
    assert kept["g"].startswith("[pictures/green.png] a green field {text+image sha256 ")
    assert not (shop / "index" / "lengths.npy").exists()
    with Searcher.open(shop / "index") as searcher:
        found = searcher.search([shop / "pictures" / "red.png", Image.open(shop / "pictures" / "blue.png"), "only words"], k=4)
        assert found.ids[:, 0].tolist() == ["r", "b", "t"]
        np.testing.assert_allclose(found.scores[:, 0], 1.0, atol=1e-4)
        assert [found.hits(row)[0].text for row in range(3)] == ["[pictures/red.png]", "[pictures/blue.png]", "only words"]
        assert found.with_texts().hits(0)[1].text in {"[pictures/green.png] a green field", "[pictures/blue.png]", "only words"}
        np.testing.assert_allclose(encoder.encode_candidates([shop / "pictures" / "red.png"])[0], encoder.encode_queries(
            [Picture.of_file(shop / "pictures" / "red.png")])[0], atol=1e-5)  # fmt: skip


def test_another_picture_under_the_same_name_is_another_corpus(shop, encoder, tmp_path):
    first = open_index(shop / "index").manifest.corpus_texts
    (tmp_path / "shop.jsonl").write_text((shop / "shop.jsonl").read_text())
    for name in ("red", "green", "blue"):
        colored(tmp_path / "pictures" / f"{name}.png", (9, 9, 9) if name == "red" else (1, 2, 3))
    build_index(tmp_path / "index", model=encoder, data=tmp_path / "shop.jsonl")
    assert open_index(tmp_path / "index").manifest.corpus_texts != first


def test_pictures_join_an_index_of_pictures_and_none_of_texts(shop, encoder, tmp_path):
    colored(tmp_path / "new.png", (200, 200, 10))
    (tmp_path / "new.csv").write_text("_id,image\nnew,new.png\n")
    shutil.copytree(shop / "index", tmp_path / "index")
    assert add_to_index(tmp_path / "index", data=tmp_path / "new.csv").candidates == 5
    with Searcher.open(tmp_path / "index", model=encoder) as searcher:
        assert searcher.search([tmp_path / "new.png"], k=1).ids[0, 0] == "new"
    (tmp_path / "lists").mkdir()
    (tmp_path / "lists" / "more.csv").write_text("_id,image\nmore,new.png\n")
    with pytest.raises(InputError, match=r"new\.png. does not exist in .*lists"):
        add_to_index(tmp_path / "index", model=encoder, data=tmp_path / "lists" / "more.csv")
    assert add_to_index(tmp_path / "index", model=encoder, data=tmp_path / "lists" / "more.csv", image_root=tmp_path).candidates == 6
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    build_index(tmp_path / "texts", model=encoder, data=tmp_path / "texts.txt")
    with pytest.raises(InputError, match=r"new\.csv holds pictures, and the index, built of texts alone.*build the index anew"):
        add_to_index(tmp_path / "texts", model=encoder, data=tmp_path / "new.csv")


def test_malformed_queries_are_told(shop, encoder, tmp_path):
    (tmp_path / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nbroken")
    (tmp_path / "empty.png").write_bytes(b"")
    with Searcher.open(shop / "index", model=encoder) as searcher:
        for query, words in (
            (tmp_path / "broken.png", r"broken\.png"),
            (tmp_path / "empty.png", r"empty\.png is empty"),
            (tmp_path / "gone.png", r"gone\.png does not exist"),
            (("a", 3), r"queries\[0\]\[1\] must be a text"),
            (3, r"queries: row 0 .*expected a text or a picture"),
        ):
            with pytest.raises(InputError, match=words):
                searcher.search([query])
        with pytest.raises(InputError, match="queries are a PosixPath; expected a list"):
            searcher.search(tmp_path / "broken.png")


def run(*arguments):
    return CliRunner().invoke(app, [str(each) for each in arguments])


def test_the_command_asks_with_pictures_texts_and_both(shop, tmp_path):
    red = shop / "pictures" / "red.png"
    lone = json.loads(run("search", shop / "index", "--image", red, "--k", 1, "--json").stdout)
    assert [(hit["id"], hit["query"], hit["text"]) for hit in lone] == [("r", f"[{red}]", "[pictures/red.png]")]
    both = json.loads(run("search", shop / "index", "a green field", "--image", shop / "pictures" / "green.png", "--k", 1, "--json").stdout)
    assert (both[0]["id"], both[0]["query"]) == ("g", f"[{shop / 'pictures' / 'green.png'}] a green field")
    two = json.loads(run("search", shop / "index", "--image", red, "--image", red, "--k", 1, "--json").stdout)
    assert [hit["rank"] for hit in two] == [1, 1]
    (tmp_path / "no.png").write_text("not a picture")
    for arguments, words in (
        (("one", "two", "--image", red), "2 texts came beside --image"),
        (("--image", tmp_path / "no.png"), "no.png"),
        (("--image", red, "--queries", shop / "shop.jsonl"), "--image and --queries came"),
        ((), "none came"),
    ):
        refused = run("search", shop / "index", *arguments)
        assert refused.exit_code == 2
        assert words in " ".join(refused.stderr.split())


def test_the_command_takes_a_file_of_pictures_and_the_folder_that_they_stand_in(shop, model, tmp_path):
    rows = [{"text": "a green field", "image": "pictures/green.png"}, {"image": "pictures/red.png"}]
    (shop / "asked.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    hits = json.loads(run("search", shop / "index", "--queries", shop / "asked.jsonl", "--k", 1, "--json").stdout)
    assert [hit["id"] for hit in hits] == ["g", "r"]
    (tmp_path / "rows.jsonl").write_text(
        json.dumps({"text": "first"}) + "\n" + json.dumps({"image": str(shop / "pictures" / "red.png")}) + "\n"
    )
    build = ("index", "build", "--model", model, "--data", tmp_path / "rows.jsonl", "--out", tmp_path / "index")
    refused = run(*build)
    assert refused.exit_code == 2
    assert "give --image-root" in " ".join(refused.stderr.split())
    made = run(*build, "--image-root", shop, "--queries", shop / "asked.jsonl", "--json")
    assert (made.exit_code, json.loads(made.stdout)["candidates"]) == (0, 2)
    with pytest.raises(InputError, match="image_root is of the pictures that data names"):
        build_index(tmp_path / "other", vectors=np.eye(3), similarity="dot", image_root=shop)


def test_pictures_have_no_length(encoder):
    lengths = text_lengths(encoder, ["three words here", Picture.of_bytes(b"x", name="x"), "one"])
    assert np.isnan(lengths).tolist() == [False, True, False]
    assert lengths[0] == lengths[2] + 2


def test_a_built_in_set_of_pictures_gives_its_candidates():
    found = read_documents("digits")
    assert found.texts == tuple(found.contents)
    assert isinstance(found.queries[0], Picture)
