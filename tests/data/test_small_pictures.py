import gzip
import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from PIL import Image

from normwise.core.errors import InputError
from normwise.data import small_pictures
from normwise.data.pictures import Picture
from normwise.data.small_pictures import DIGIT_CLASSES, FASHION_CLASSES, build_digits, build_fashion, find_fashion, grey_png


def idx(values):
    head = bytes((0, 0, 8, values.ndim)) + b"".join(length.to_bytes(4, "big") for length in values.shape)
    return head + values.astype(np.uint8).tobytes()


def write_fashion(folder, train, test):
    for part, (images, labels) in {"train": train, "t10k": test}.items():
        (folder / f"{part}-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(images)))
        (folder / f"{part}-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(labels)))


def pixels(picture):
    with Image.open(io.BytesIO(picture.encoded())) as image:
        assert (image.format, image.mode) == ("PNG", "L")
        return np.asarray(image).copy()


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    images = rng.integers(0, 256, (90, 28, 28), dtype=np.uint8)
    labels = np.arange(90) % 10
    test = images[80:].copy()
    test[0] = images[5]  # stands in training under the same class
    images[8], labels[8] = images[7], labels[7]  # twice
    images[10], labels[10], labels[9] = images[9], 1, 2  # under two classes
    labels[5] = 3
    write_fashion(tmp_path, (images[:80], labels[:80]), (test, np.array([3, *range(9)])))
    return tmp_path


@given(arrays(np.uint8, array_shapes(min_dims=2, max_dims=2, max_side=9), elements=st.integers(0, 255)))
def test_a_png_gives_the_same_pixels_back(image):
    assert np.array_equal(pixels(Picture.of_bytes(grey_png(image), name="")), image)


def test_fashion_keeps_its_test_split_and_every_picture_once(folder):
    data = build_fashion(roots=[str(folder)])
    assert data == build_fashion(roots=[str(folder)])
    assert data.train.corpus.contents == FASHION_CLASSES
    assert data.skewed
    parts = [data.train.queries, data.dev.queries, data.test.queries]
    digests = [picture.digest for part in parts for picture in part]
    assert len(digests) == len(set(digests)) == 80 + 10 - 4
    assert len(data.test) == 9
    assert "left out: 4" in " ".join(data.notes)
    assert "MIT" in data.notes[0]


def test_fashion_pictures_have_their_classes(folder):
    data = build_fashion(roots=[str(folder)])
    with gzip.open(folder / "train-images-idx3-ubyte.gz") as file:
        images = np.frombuffer(file.read()[16:], dtype=np.uint8).reshape(-1, 28, 28)
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        labels = np.frombuffer(file.read()[8:], dtype=np.uint8)
    known = {image.tobytes(): int(label) for image, label in zip(images, labels, strict=True)}
    rows = [*zip(data.train.queries, data.train.positives, strict=True)]
    rows += [(query, next(iter(grades))) for query, grades in zip(data.dev.queries, data.dev.relevance, strict=True)]
    assert all(known[pixels(picture).tobytes()] == row for picture, row in rows)


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    known = {tuple(image): int(label) for image, label in zip(values.astype(int), labels, strict=True)}
    data = build_digits()
    assert data == build_digits()
    assert data.train.corpus.contents == DIGIT_CLASSES
    rows = [*zip(data.train.queries, data.train.positives, strict=True)]
    for part in (data.dev, data.test):
        rows += [(query, next(iter(grades))) for query, grades in zip(part.queries, part.relevance, strict=True)]
    assert len(rows) == 1797
    assert 300 < len(data.test) < 420
    assert 300 < len(data.dev) < 420
    # 17 greys are spread over 0..255, so that they come back by rounding.
    assert all(known[tuple(np.rint(pixels(picture).reshape(-1) * (16 / 255)).astype(int))] == row for picture, row in rows)


def test_fashion_that_is_missing_says_how_to_get_it(tmp_path, monkeypatch):
    with pytest.raises(InputError, match=r"Fashion-MNIST was not found in .*apt-get install dataset-fashion-mnist"):
        build_fashion(roots=[str(tmp_path)])
    assert find_fashion([str(tmp_path)]) is None
    monkeypatch.setattr(small_pictures, "find_fashion", lambda roots=None: None)
    with pytest.raises(InputError, match="not found in the usual places"):
        build_fashion()


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("train-images-idx3-ubyte.gz", lambda data: data[:-200], r"train-images.* is cut off or broken"),
        ("train-images-idx3-ubyte.gz", lambda data: gzip.compress(b"\0\0\x08\x01" + bytes(12)), "got a head of 00000801"),
        ("train-images-idx3-ubyte.gz", lambda data: gzip.compress(gzip.decompress(data) + b"\0"), "got 62,721 values for 62,720"),
        ("train-images-idx3-ubyte.gz", lambda data: gzip.compress(b"\0\0\x08\x03\xff" + bytes(11)), "got a head of 00000803ff"),
        ("t10k-labels-idx1-ubyte.gz", lambda data: b"no gzip", r"t10k-labels.* cannot be read: Not a gzipped file"),
        ("t10k-labels-idx1-ubyte.gz", lambda data: gzip.compress(idx(np.zeros(3))), r"3 classes for 10 pictures"),
        ("t10k-labels-idx1-ubyte.gz", lambda data: gzip.compress(idx(np.arange(10) + 1)), r"row 9 \(from 0\): class 10, expected 0 to 9"),
    ],
)
def test_broken_files_are_named(folder, name, change, message):
    (folder / name).write_bytes(change((folder / name).read_bytes()))
    with pytest.raises(InputError, match=message):
        build_fashion(roots=[str(folder)])


def test_too_few_pictures_are_refused(tmp_path):
    one = (np.zeros((1, 28, 28)), np.zeros(1))
    write_fashion(tmp_path, one, one)
    with pytest.raises(InputError, match="fashion-mnist: . pictures for training: at least 2"):
        build_fashion(roots=[str(tmp_path)])


@pytest.mark.slow
@pytest.mark.skipif(find_fashion() is None, reason=small_pictures.HOW_TO_GET_FASHION)
def test_the_real_fashion_set_has_its_size():
    data = build_fashion()
    assert len(data.test) == 10_000
    assert len(data.train) + len(data.dev) == 60_000
    assert 4_600 < len(data.dev) < 5_400
    counts = np.bincount(data.train.positives) + np.bincount([next(iter(grades)) for grades in data.dev.relevance])
    assert counts.tolist() == [6000] * 10
    assert pixels(data.train.queries[0]).shape == (28, 28)
