"""A model trained on one background shows pictures on it ever after: encoded, evaluated, indexed, searched, trained further."""

import json

import numpy as np
import pytest
from PIL import Image

from normwise.core.config import ModelConfig, PaceConfig
from normwise.core.errors import InputError
from normwise.core.records import Decision
from normwise.core.similarity import Similarity
from normwise.data.pictures import Picture
from normwise.models.contract import describe_encoder
from normwise.models.encoder import Encoder
from normwise.models.fingerprint import model_fingerprint
from normwise.models.loading import load_base
from normwise.workflows.build_index import build_index
from normwise.workflows.evaluate import evaluate
from normwise.workflows.inspect_source import Reading, open_model
from normwise.workflows.inspect_usefulness import _open as usefulness_model
from normwise.workflows.job import background_of, prepare_job
from normwise.workflows.publish import describe_chosen
from normwise.workflows.search import Searcher

pytestmark = pytest.mark.slow
BLACK, WHITE = (0, 0, 0), (255, 255, 255)


def clear(number):
    image = Image.new("RGBA", (64, 64), (number * 20, 90, 200, 255))
    image.paste((0, 0, 0, 0), (20 + number, 0, 64, 64))
    return image


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pictures")
    rows = []
    for number in range(12):
        clear(number).save(folder / f"{number}.png")
        rows.append({"query": f"number {number}", "positive_image": f"{number}.png"})
    (folder / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    """The same weights saved with three contracts, by background."""
    st = load_base(ModelConfig(layers=1, max_tokens=8, vision={"dimensions": 16, "image_size": 64}))
    root, found = tmp_path_factory.mktemp("models"), {}
    for background in ("black", "white", None):
        contract = describe_encoder(st, similarity=Similarity.DOT, background=background)
        Encoder(st, contract=contract, name=str(background)).save(root / str(background))
        found[background] = root / str(background)
    return found


@pytest.fixture(scope="module")
def encoders(models):
    return {background: Encoder.load(place) for background, place in models.items()}


def on(picture, color):
    return Picture.of_bytes(picture.encoded(), name="stated", background=color)


def test_paths_and_open_pictures_are_shown_as_in_training(encoders, folder, tmp_path):
    path, image = folder / "3.png", clear(3)
    picture = Picture.of_file(path)
    on_black, on_white = (encoders[None].encode_candidates([on(picture, color)])[0] for color in (BLACK, WHITE))
    assert np.abs(on_black - on_white).max() > 1e-3
    for background, wanted in (("black", on_black), ("white", on_white), (None, on_white)):
        encoder = encoders[background]
        assert encoder.contract.background == background
        for found in (
            encoder.encode_queries([path, image, picture, "a text"])[:3],
            encoder.encode_candidates([path, image]),
            encoder.encode_images([path, image]),
            encoder.encode_to_memmap(["a text", path, image], tmp_path / "v.npy")[1:],
        ):
            np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), atol=2e-5)
    both = encoders["black"].encode_queries([(path, "in red")])[0]
    np.testing.assert_allclose(both, encoders[None].encode_queries([(on(picture, BLACK), "in red")])[0], atol=2e-5)


def test_another_background_is_refused_by_number(encoders, folder):
    stated = on(Picture.of_file(folder / "3.png"), WHITE)
    with pytest.raises(InputError, match=r"contents\[1\] .* shown on white, and .*black was trained with pictures on black"):
        encoders["black"].encode_queries(["a", stated])
    with pytest.raises(InputError, match=r"images\[0\] .* shown on white"):
        encoders["black"].encode_images([stated])


def test_a_config_that_says_another_background_is_refused_and_one_that_says_none_is_read(models, encoders, folder, tmp_path):
    plain, dark, light = (tmp_path / f"{name}.toml" for name in ("plain", "dark", "light"))
    for path, line in ((plain, ""), (dark, 'background = "#000000"'), (light, 'background = "white"')):
        path.write_text(f'[data]\nname = "{folder}/pairs.jsonl"\n{line}\n')
    wanted = evaluate(encoders["black"], dark)
    assert evaluate(encoders["black"], plain).geometry == wanted.geometry == evaluate(encoders["black"], folder / "pairs.jsonl").geometry
    assert evaluate(encoders[None], dark).geometry == wanted.geometry
    assert evaluate(encoders["white"], plain).geometry != wanted.geometry
    with pytest.raises(InputError, match=r"shown on white, and .* trained with pictures on black: leave background out of the config"):
        evaluate(encoders["black"], light)


def test_norm_reports_are_of_pictures_as_the_model_was_trained(models, encoders, folder):
    pictures = [folder / f"{number}.png" for number in range(12)]
    for name in ("black", "white", None):
        wanted = encoders[name].encode_candidates(pictures)
        for opened in (open_model(str(models[name]), Reading()).encoder, usefulness_model(models[name])[0]):
            np.testing.assert_allclose(opened.encode_candidates(pictures), wanted, atol=1e-6)
    stated = Picture.of_file(pictures[0], background=WHITE)
    with pytest.raises(InputError, match="shown on white, and .* trained with pictures on black"):
        open_model(str(models["black"]), Reading()).encoder.encode_candidates([stated])


def test_an_index_and_its_search_show_the_same(models, folder, tmp_path):
    rows = [{"_id": str(number), "image": f"{number}.png"} for number in range(12)]
    (folder / "photos.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    build_index(tmp_path / "index", model=models["black"], data=folder / "photos.jsonl")
    with Searcher.open(tmp_path / "index") as searcher:
        found = searcher.search([folder / "5.png", clear(5)], k=12)
    vector = Encoder.load(models[None]).encode_candidates([on(Picture.of_file(folder / "5.png"), BLACK)])[0].astype(np.float64)
    for row in range(2):
        (place,) = np.flatnonzero(found.ids[row] == "5")
        assert found.norms[row, place] == pytest.approx(np.linalg.norm(vector), rel=1e-4)
        assert found.scores[row, place] == pytest.approx(vector @ vector, rel=1e-3)


def test_the_background_is_part_of_what_a_model_is(encoders):
    hashes = {background: model_fingerprint(encoder) for background, encoder in encoders.items()}
    assert hashes["white"] == hashes[None] != hashes["black"]


def settings(folder, name, **data):
    stage = {"name": "one", "temperature": 0.05, "steps": 1, "batch_size": 2, "trainable": "head"}
    values = {"data": {"name": str(folder / "pairs.jsonl"), **data}, "model": {"name": str(name)}, "arms": {"a": [stage]}}
    return PaceConfig.read(values, source="test")


@pytest.mark.parametrize(
    ("base", "stated", "wanted"), [("black", {}, "black"), ("black", {"background": "white"}, "white"), (None, {}, "white")]
)
def test_training_goes_on_as_the_base_was_trained_unless_told(models, folder, base, stated, wanted):
    job = prepare_job(settings(folder, models[base], **stated), log=lambda _: None, progress=False)
    assert background_of(job.config, job.encoder) == wanted
    decision = Decision(similarity="dot", run=None, split="dev", reason="as it is")
    assert describe_chosen(job.encoder, job, decision, None, np.ones((2, 16), dtype=np.float32)).background == wanted
    color = {"black": BLACK, "white": WHITE}[wanted]
    assert {picture.background for part in (job.pairs, job.dev, job.test) for picture in part.corpus.contents} == {color}
