"""Mixed inputs: grouped, encoded as one by one, put back in order; texts are never taken for paths."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from normwise.core.config import ModelConfig
from normwise.core.errors import InputError
from normwise.data.contents import Interleaved, modality_of
from normwise.data.pictures import Picture
from normwise.models.encoder import Encoder
from normwise.models.encoding import encode_contents
from normwise.models.inputs import Group, as_contents, group_contents, model_input, put_together, reads
from normwise.models.loading import load_base
from normwise.models.probe import probe_pictures

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def encoder():
    st = load_base(ModelConfig(layers=1, max_tokens=16, vision={"dimensions": 24, "image_size": 32}))
    return Encoder(st, similarity="dot")


def one_by_one(encoder, contents):
    return np.concatenate([encoder.encode_queries([content]) for content in contents])


def test_a_mixed_list_in_one_call_is_the_same_as_one_by_one(encoder):
    a, b, c = probe_pictures()[:3]
    mixed = ["a red car", a, (b, "the same in blue"), "", c, ("before", a, "after"), "a red car", [a, b]]
    together = encoder.encode_queries(mixed, batch_size=2)
    np.testing.assert_allclose(together, one_by_one(encoder, mixed), atol=1e-4)
    assert together.shape == (8, 24)
    np.testing.assert_allclose(together[0], together[6], atol=1e-4)


@settings(max_examples=10)
@given(order=st.permutations(range(6)), batch_size=st.integers(1, 7))
def test_the_order_of_the_list_is_the_order_of_the_vectors(encoder, order, batch_size):
    a, b, c = probe_pictures()[:3]
    contents = ["cat", a, Interleaved((b, "dog")), "a longer text of some words", c, Interleaved(("x", a))]
    reference = encoder.encode_candidates(contents)
    found = encoder.encode_candidates([contents[place] for place in order], batch_size=batch_size)
    np.testing.assert_allclose(found, reference[list(order)], atol=1e-4)


def test_text_and_picture_of_two_towers_are_the_sum_so_that_dot_scores_add_up(encoder):
    a = probe_pictures()[0]
    whole, parts = encoder.encode_queries([(a, "in blue")]), encoder.encode_queries([a, "in blue"])
    candidates = encoder.encode_candidates(["one", "two", probe_pictures()[1]])
    np.testing.assert_allclose(encoder.score(whole, candidates)[0], encoder.score(parts, candidates).sum(axis=0), rtol=1e-4, atol=1e-4)
    assert encoder.contract.text_with_picture == "sum"


def test_a_text_that_looks_like_a_picture_stays_a_text(encoder, tmp_path, monkeypatch):
    path = tmp_path / "cat.png"
    Image.new("RGB", (8, 8)).save(path)
    names = [str(path), "http://127.0.0.1:9/cat.png", "data:image/png;base64,AAAA", "https://youtu.be/x"]
    monkeypatch.setattr("urllib.request.urlopen", lambda *a, **k: pytest.fail("fetched"))
    found = encoder.encode_queries(names)
    longer = encoder.encode_queries([f"{name} " for name in names])
    np.testing.assert_allclose(found, longer, atol=1e-5)
    assert not np.allclose(found[0], encoder.encode_queries([path])[0], atol=1e-3)


def test_paths_images_and_pictures_are_one_picture(encoder, tmp_path):
    image = probe_pictures()[4].open()
    image.save(tmp_path / "x.png")
    rows = encoder.encode_queries([tmp_path / "x.png", image, Picture.of_file(tmp_path / "x.png")])
    np.testing.assert_allclose(rows, np.repeat(rows[:1], 3, axis=0), atol=1e-5)
    np.testing.assert_allclose(encoder.encode_images([image]), rows[:1], atol=1e-5)


def test_a_turned_photo_in_memory_is_turned_back(encoder):
    image = probe_pictures()[1].open()
    turned = image.transpose(Image.Transpose.ROTATE_90)
    exif = Image.Exif()
    exif[274] = 6  # the camera was turned: rotate by 270 degrees to look at it
    turned.getexif()[274] = 6
    np.testing.assert_allclose(encoder.encode_images([turned]), encoder.encode_images([image]), atol=1e-5)


def test_skip_gives_the_zero_vector_and_names_what_was_skipped(encoder, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no picture at all")
    good = probe_pictures()[0]
    mixed = ["text", tmp_path / "bad.png", good, (tmp_path / "bad.png", "with words")]
    with pytest.warns(
        UserWarning,
        match=r"2 of the contents \(numbers 1, 3\) have a picture that cannot be read and got the zero vector: .*bad.png [^;]*$",
    ) as told:
        found = encoder.encode_queries(mixed, on_error="skip")
    assert len(told) == 1
    np.testing.assert_array_equal(np.linalg.norm(found, axis=1) == 0, [False, True, False, True])
    np.testing.assert_allclose(found[[0, 2]], encoder.encode_queries(["text", good]), atol=1e-5)
    with pytest.raises(InputError, match=r"bad\.png"):
        encoder.encode_queries(mixed)
    with pytest.raises(InputError, match="on_error must be raise or skip, got 'ignore'"):
        encoder.encode_queries(mixed, on_error="ignore")


def test_all_skipped_is_all_zeros(encoder, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"x")
    with pytest.warns(UserWarning, match=r"1 of the contents \(number 0\) has a picture"):
        assert not encoder.encode_queries([tmp_path / "bad.png"], on_error="skip").any()


def test_both_ways_to_be_skipped_give_one_warning_with_the_numbers_of_the_stream(encoder, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no picture at all")
    stream = ["x"] * 40 + [tmp_path / "absent.png"] + ["y"] * 40 + [tmp_path / "bad.png", probe_pictures()[0]]
    with pytest.warns(UserWarning, match=r"2 of the contents \(numbers 40, 81\) have .*absent.png.*; .*bad.png") as told:
        found = encoder.encode_to_memmap(stream, tmp_path / "v.npy", batch_size=1, on_error="skip")
    assert len(told) == 1
    assert np.flatnonzero(np.linalg.norm(found, axis=1) == 0).tolist() == [40, 81]
    with pytest.raises(InputError, match=r"contents\[40\]: .*absent.png"):
        encoder.encode_to_memmap(stream, tmp_path / "w.npy", batch_size=1)


def test_a_stream_tells_zero_vectors_once_and_those_skipped_apart(encoder, tmp_path, monkeypatch):
    plain = encoder.model.forward

    def silent(features, **kwargs):
        found = plain(features, **kwargs)
        found["sentence_embedding"] = found["sentence_embedding"] * 0 if "pixel_values" in features else found["sentence_embedding"]
        return found

    monkeypatch.setattr(encoder.model, "forward", silent)
    stream = ["x"] * 33 + [probe_pictures()[0], tmp_path / "absent.png"] + ["y"] * 33 + [probe_pictures()[1]]
    with pytest.warns(UserWarning, match="number") as told:
        encoder.encode_to_memmap(stream, tmp_path / "v.npy", batch_size=1, on_error="skip")
    assert [str(each.message).partition(" has ")[0].partition(" have ")[0] for each in told] == [
        "1 of the contents (number 34)",
        "2 of 69 contents (numbers 33, 68)",
    ]
    with pytest.warns(UserWarning, match=r"1 of 1 images \(number 0\) has a zero vector") as told:
        encoder.encode_images([probe_pictures()[0]])
    assert told[0].filename == __file__
    with pytest.warns(UserWarning, match=r"1 of 1 contents \(number 0\) has a zero vector") as told:
        encoder.encode_queries([probe_pictures()[0]])
    assert told[0].filename == __file__


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_without_rows_is_refused_and_the_file_that_is_there_stays(encoder, tmp_path, size):
    encoder.encode_to_memmap(["a", "b"], tmp_path / "v.npy")
    with pytest.raises(InputError, match=f"batch_size must be at least 1, got {size}"):
        encoder.encode_to_memmap(["a"], tmp_path / "v.npy", batch_size=size)
    assert np.load(tmp_path / "v.npy").shape == (2, 24)


def test_pictures_alone_are_skipped_and_a_text_among_them_is_not(encoder, tmp_path):
    (tmp_path / "bad.png").write_bytes(b"no picture at all")
    good = probe_pictures()[0]
    with pytest.warns(UserWarning, match=r"2 of the images \(numbers 0, 2\) have"):
        found = encoder.encode_images([tmp_path / "bad.png", good, tmp_path / "absent.png"], on_error="skip")
    np.testing.assert_allclose(found, np.concatenate([0 * found[:1], encoder.encode_images([good]), 0 * found[:1]]), atol=1e-6)
    with pytest.raises(InputError, match=r"images\[0\] must be a PIL image, a path or a Picture, got str"):
        encoder.encode_images(["a.png"], on_error="skip")
    with pytest.raises(InputError, match=r"bad\.png"):
        encoder.encode_images([tmp_path / "bad.png"])


def test_a_model_of_texts_refuses_pictures_by_index(make_small):
    plain = Encoder(make_small())
    with pytest.raises(InputError, match=r"contents\[1\] is image \(\[probe picture 0\]\), and the model reads texts only: choose a model"):
        plain.encode_queries(["a", probe_pictures()[0]])
    with pytest.raises(InputError, match=r"reads text, not images"):
        plain.encode_images([probe_pictures()[0]])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (["a", "b"], "'a', 'b'.*: texts and pictures that belong together go in as a tuple of str and pathlib.Path"),
        ((), r"\(\).*a tuple"),
        ({"text": "a"}, "dict"),
        (b"x", r"bytes.*: bytes of a picture go in as Picture.of_bytes\(data, name=...\)"),
        (np.zeros((2, 2, 3)), r"ndarray\): an array of pixels goes in as PIL.Image.fromarray\(array\)"),
        (None, r"NoneType\): leave that row out, or fill it"),
    ],
)
def test_what_is_no_content_is_named(value, shown):
    with pytest.raises(InputError, match=rf"inputs\[1\] must be a text \(str\) or a picture .*{shown}"):
        as_contents(["fine", value], what="inputs")


def test_one_content_in_place_of_a_list_is_refused():
    with pytest.raises(InputError, match="inputs must be a list, got one Picture"):
        as_contents(probe_pictures()[0], what="inputs")


def test_groups_cover_every_content_once_or_by_its_parts(encoder):
    a, b = probe_pictures()[:2]
    contents = ["x", a, Interleaved((a, "y", b)), "z"]
    groups = group_contents(encoder.model, contents)
    assert [(group.modality, group.owners.tolist()) for group in groups] == [("text", [0, 2, 3]), ("image", [1, 2, 2])]
    assert {modality_of(content) for group in groups for content in group.inputs} == {"text", "image"}
    left = group_contents(encoder.model, contents, without={0, 2})
    assert [(group.modality, group.owners.tolist()) for group in left] == [("text", [3]), ("image", [1])]
    assert reads(encoder.model) == "towers"
    assert model_input(encoder.model, "x.png") == {"text": "x.png"}


def test_parts_are_summed_by_owner():
    groups = [Group("text", np.array([1, 0, 1]), ("a", "b", "c")), Group("image", np.array([1]), (probe_pictures()[0],))]
    rows = [np.array([[1.0], [2.0], [4.0]]), np.array([[8.0]])]
    assert put_together(3, 1, groups, rows).tolist() == [[2.0], [13.0], [0.0]]


def test_nothing_gives_no_rows_and_encoding_leaves_no_gradient(encoder):
    assert encode_contents(encoder.model, []).shape == (0, 24)
    assert torch.is_grad_enabled()
    assert encoder.encode_candidates([probe_pictures()[0]]).dtype == np.float32


def test_a_saved_dual_encoder_comes_back_and_a_changed_vision_tower_is_seen(encoder, tmp_path):
    mixed = ["a", probe_pictures()[2]]
    encoder.save(tmp_path / "model")
    again = Encoder.load(tmp_path / "model")
    np.testing.assert_allclose(again.encode_queries(mixed), encoder.encode_queries(mixed), atol=1e-6)
    assert again.contract.modalities == ("text", "image")
    from sentence_transformers import SentenceTransformer

    plain = SentenceTransformer(str(tmp_path / "model"))
    np.testing.assert_allclose(plain.encode([{"text": "a"}]), encoder.encode_candidates(["a"]), atol=1e-5)
    np.testing.assert_allclose(plain.encode([probe_pictures()[2].open()]), encoder.encode_candidates(mixed)[1:], atol=1e-5)


def test_skip_also_skips_what_cannot_even_be_read(encoder, tmp_path):
    (tmp_path / "empty.png").write_bytes(b"")
    mixed = ["a", tmp_path / "absent.png", (tmp_path / "absent.png", "x"), tmp_path / "empty.png", tmp_path, probe_pictures()[0]]
    with pytest.warns(
        UserWarning, match=r"4 of the contents \(numbers 1, 2, 3, 4\) have .*absent.png.*empty.png is empty.*is a folder"
    ) as told:
        found = encoder.encode_queries(mixed, on_error="skip")
    assert len(told) == 1
    np.testing.assert_array_equal(np.linalg.norm(found, axis=1) == 0, [False, True, True, True, True, False])
    with pytest.raises(InputError, match=r"contents\[1\]: .*absent.png"):
        encoder.encode_queries(mixed)


def test_a_pipe_is_refused_and_not_waited_for(encoder, tmp_path):
    import os

    os.mkfifo(tmp_path / "pipe.png")
    with pytest.raises(InputError, match=r"pipe.png is a device, a pipe or a socket: give a file"):
        encoder.encode_queries([tmp_path / "pipe.png"])


def test_a_picture_that_goes_or_changes_is_told_with_its_content_or_skipped(encoder, tmp_path):
    path = tmp_path / "x.png"
    Image.new("RGB", (8, 8), "red").save(path)
    kept = Picture.of_file(path)
    Image.new("RGB", (8, 8), "blue").save(path)
    with pytest.raises(InputError, match=r"\(contents\[1\]\) cannot be opened .*the file was changed while it was in use"):
        encoder.encode_queries(["a", kept])
    path.unlink()
    with pytest.warns(UserWarning, match=r"1 of the contents \(number 0\) has a picture that cannot be read"):
        assert not encoder.encode_queries([kept], on_error="skip").any()


def test_one_open_image_in_place_of_a_list_is_refused(encoder):
    with pytest.raises(InputError, match="contents must be a list, got one Image"):
        encoder.encode_queries(Image.new("RGB", (4, 4)))
