"""`fashion-mnist` and `digits`: small grey pictures of ten classes, classified by ranking the names of the classes."""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from normwise.core.errors import InputError
from normwise.data.cache import default_cache
from normwise.data.opening import reading, user_path
from normwise.data.pictures import Picture
from normwise.data.sets import Corpus, Judged, RetrievalData, TrainingPairs, is_skewed
from normwise.data.sources import stable_fraction

FASHION, DIGITS = "fashion-mnist", "digits"
KINDS = {
    FASHION: "image to class: picture of clothing to the name of its class",
    DIGITS: "image to class: picture of a written digit to its name",
}
HOW_TO_GET_FASHION = (
    "install its four files (Debian or Ubuntu: apt-get install dataset-fashion-mnist), or name the folder that holds "
    "train-images-idx3-ubyte.gz in data.roots"
)
HOW_TO_GET_DIGITS = "comes with scikit-learn, which normwise needs anyway"
FASHION_CLASSES = ("T-shirt or top", "trousers", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
DIGIT_CLASSES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SIDE = 28
_MOST = 1_000_000
_FILES = {"train": "train", "test": "t10k"}
_DEV_SHARE, _DIGITS_SHARE = 1 / 12, 0.2


class Labeled(NamedTuple):
    """A picture as PNG, its class, and a number in [0, 1) that its pixels alone decide."""

    png: bytes
    label: int
    fraction: float


def find_fashion(roots: Sequence[str] | None = None) -> Path | None:
    """The first folder that holds Fashion-MNIST's four files: one of `roots` when given, else one of the usual places."""
    usual = (Path("/usr/share/datasets/fashion-mnist"), Path("fashion-mnist"), default_cache() / "fashion-mnist")
    for place in usual if roots is None else [user_path(root, what="data.roots") for root in roots]:
        try:
            if all((place / name).is_file() for part in _FILES.values() for name in _names(part)):
                return place
        except OSError:
            continue
    return None


def build_fashion(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (picture, name of its class) of Fashion-MNIST: 28 x 28 grey pictures of ten kinds of clothing.

    The test split is the data set's own; about a twelfth of its training pictures, by a hash of their pixels, is dev. Pictures
    that repeat another byte for byte are left out, and so are pictures that stand under two classes.

    Args:
        roots: folders to look for its files in; None means the usual places.
        cache_dir: not used; the files are read in seconds.

    Raises:
        InputError: the files are not found or malformed.
    """
    folder = find_fashion(roots)
    if folder is None:
        where = "in the usual places" if roots is None else f"in {', '.join(roots)}"
        raise InputError(f"Fashion-MNIST was not found {where}: {HOW_TO_GET_FASHION}")
    parts = {split: _read_pair(folder, part) for split, part in _FILES.items()}
    official, lost = _distinct({split: _encoded(*part) for split, part in parts.items()})
    splits: dict[str, list[Labeled]] = {"train": [], "dev": [], "test": official["test"]}
    for each in official["train"]:
        splits["dev" if each.fraction < _DEV_SHARE else "train"].append(each)
    notes = ("Fashion-MNIST (Zalando SE, MIT license)", f"repeated pictures and pictures under two classes left out: {lost:,}")
    return _assemble(FASHION, FASHION_CLASSES, splits, notes)


def build_digits(*, roots: Sequence[str] | None = None, cache_dir: Path | None = None) -> RetrievalData:
    """Pairs of (picture, name of its class) of scikit-learn's digits: 1,797 written digits, 8 x 8 pixels of 17 greys.

    A fifth each, by a hash of the pixels, is dev and test; who wrote a digit is not known, so a writer may be in several splits.

    Args:
        roots: not used; the pictures come with scikit-learn.
        cache_dir: not used; they are read in a moment.
    """
    from sklearn.datasets import load_digits

    values, labels = load_digits(return_X_y=True)
    images = np.rint(np.asarray(values).reshape(-1, 8, 8) * (255.0 / 16.0)).astype(np.uint8)
    found, lost = _distinct({"all": _encoded(images, np.asarray(labels))})
    splits: dict[str, list[Labeled]] = {"train": [], "dev": [], "test": []}
    for each in found["all"]:
        splits["test" if each.fraction < _DIGITS_SHARE else "dev" if each.fraction < 2 * _DIGITS_SHARE else "train"].append(each)
    notes = (
        "digits of scikit-learn (UCI Optical Recognition of Handwritten Digits, CC BY 4.0)",
        "writers are not known, so one may be in several splits",
        f"repeated pictures and pictures under two classes left out: {lost:,}",
    )
    return _assemble(DIGITS, DIGIT_CLASSES, splits, notes)


def _names(part: str) -> tuple[str, str]:
    return f"{part}-images-idx3-ubyte.gz", f"{part}-labels-idx1-ubyte.gz"


def _read_pair(folder: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    pictures, classes = (folder / name for name in _names(part))
    images, labels = _read_idx(pictures, (_SIDE, _SIDE)), _read_idx(classes, ())
    if len(images) != len(labels):
        raise InputError(f"{classes} has {len(labels):,} classes for {len(images):,} pictures of {pictures.name}: are the files whole?")
    if len(labels) and int(labels.max()) >= len(FASHION_CLASSES):
        row = int(np.argmax(labels >= len(FASHION_CLASSES)))
        raise InputError(f"{classes}, row {row} (from 0): class {labels[row]}, expected 0 to {len(FASHION_CLASSES) - 1}")
    return images, labels


def _read_idx(path: Path, shape: tuple[int, ...]) -> np.ndarray:
    """Unsigned bytes in the IDX format, gzipped: a magic number that holds the number of axes, their lengths, then the values."""
    axes = len(shape) + 1
    try:
        with reading(path), gzip.open(path) as file:
            head = file.read(4 + 4 * axes)
            lengths = [int.from_bytes(head[4 + 4 * axis : 8 + 4 * axis], "big") for axis in range(axes)]
            known = head[:4] == bytes((0, 0, 8, axes)) and len(head) == 4 + 4 * axes and tuple(lengths[1:]) == shape
            wanted = int(np.prod(lengths)) if known and lengths[0] <= _MOST else 0
            # One byte more than there should be tells a file that is too long, however far it would unpack.
            values = file.read(wanted + 1)
    except (EOFError, zlib.error):
        raise InputError(f"{path} is cut off or broken: get it anew; {HOW_TO_GET_FASHION}") from None
    if not wanted or len(values) != wanted:
        came = f"{len(values):,} values for {wanted:,}" if wanted else f"a head of {head.hex()}"
        raise InputError(f"{path}: expected an IDX file of bytes, each row {shape or 'a number'}, got {came}")
    return np.frombuffer(values, dtype=np.uint8).reshape(lengths)


def _encoded(images: np.ndarray, labels: np.ndarray) -> list[Labeled]:
    pixels = [image.tobytes() for image in images]
    return [
        Labeled(grey_png(image), int(label), stable_fraction(raw.hex())) for image, label, raw in zip(images, labels, pixels, strict=True)
    ]


def grey_png(image: np.ndarray) -> bytes:
    r"""Encode a grey picture as PNG: signature, head, deflated rows that begin with a 0 (no filter), end.

    Args:
        image: (height, width) uint8.

    Returns:
        The bytes of the file.

    Reference:
        PNG specification (third edition), sections 5 and 9.

    Example:
        >>> grey_png(np.zeros((2, 3), dtype=np.uint8))[:8]
        b'\x89PNG\r\n\x1a\n'
    """
    height, width = image.shape
    rows = np.zeros((height, width + 1), dtype=np.uint8)
    rows[:, 1:] = image
    # 8 bits a sample, grey; the only ways of compressing and filtering that there are; not interlaced.
    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes((8, 0, 0, 0, 0))
    parts = ((b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes(), 1)), (b"IEND", b""))
    packed = (len(data).to_bytes(4, "big") + kind + data + zlib.crc32(kind + data).to_bytes(4, "big") for kind, data in parts)
    return b"\x89PNG\r\n\x1a\n" + b"".join(packed)


def _distinct(parts: dict[str, list[Labeled]]) -> tuple[dict[str, list[Labeled]], int]:
    """Every picture once, at its first place, and none that stands under two classes; and how many are left out."""
    classes: dict[bytes, set[int]] = {}
    for mine in parts.values():
        for each in mine:
            classes.setdefault(each.png, set()).add(each.label)
    seen: set[bytes] = set()
    kept: dict[str, list[Labeled]] = {}
    for name, mine in parts.items():
        kept[name] = []
        for each in mine:
            if len(classes[each.png]) == 1 and each.png not in seen:
                seen.add(each.png)
                kept[name].append(each)
    return kept, sum(map(len, parts.values())) - sum(map(len, kept.values()))


def _assemble(name: str, classes: Sequence[str], splits: dict[str, list[Labeled]], notes: tuple[str, ...]) -> RetrievalData:
    corpus = Corpus(tuple(str(number) for number in range(len(classes))), tuple(classes))
    pictures = {
        split: tuple(Picture.of_bytes(each.png, name=f"{name} {split} {row}") for row, each in enumerate(mine))
        for split, mine in splits.items()
    }
    labels = {split: np.asarray([each.label for each in mine], dtype=np.int64) for split, mine in splits.items()}
    if len(labels["train"]) < 2:
        raise InputError(f"{name}: {len(labels['train'])} pictures for training: at least 2 are needed; are the files whole?")
    size = len(labels["train"])
    train = TrainingPairs(pictures["train"], labels["train"], ((),) * size, corpus, np.arange(size))
    judged = {
        split: Judged(
            tuple(f"{split}-{row}" for row in range(len(labels[split]))), pictures[split],
            tuple({int(label): 1.0} for label in labels[split]), corpus, np.arange(len(labels[split])),
        )
        if len(labels[split])
        else None
        for split in ("dev", "test")
    }  # fmt: skip
    return RetrievalData(name, KINDS[name], train, judged["dev"], judged["test"], skewed=is_skewed(labels["train"]), notes=notes)
