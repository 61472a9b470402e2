"""MMEB's published layout: its subsets, where their files stand, and their columns."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from normwise.core.errors import InputError, near_names
from normwise.data.lines import read_json_lines
from normwise.data.opening import folder_names, kind_of, reading
from normwise.data.parquet_columns import open_pyarrow

Meta = Literal["classification", "vqa", "retrieval", "grounding", "other"]
Layout = Literal["evaluation", "training"]
METAS: tuple[Meta, ...] = ("classification", "vqa", "retrieval", "grounding", "other")
IMAGES = "images"

_SUBSETS: dict[Meta, tuple[str, str]] = {
    # (with training data, without)
    "classification": ("ImageNet-1K N24News HatefulMemes VOC2007 SUN397", "Place365 ImageNet-A ImageNet-R ObjectNet Country211"),
    "vqa": ("OK-VQA A-OKVQA DocVQA InfographicsVQA ChartQA Visual7W", "ScienceQA VizWiz GQA TextVQA"),
    "retrieval": (
        "VisDial CIRR VisualNews_t2i VisualNews_i2t MSCOCO_t2i MSCOCO_i2t NIGHTS WebQA",
        "OVEN FashionIQ EDIS Wiki-SS-NQ",
    ),
    "grounding": ("MSCOCO", "RefCOCO RefCOCO-Matching Visual7W-Pointing"),
}
PUBLISHED: dict[str, tuple[Meta, bool]] = {
    name: (meta, place == 0) for meta, groups in _SUBSETS.items() for place, names in enumerate(groups) for name in names.split()
}
# The training files write this one with an underscore.
_ALIASES = {"ImageNet_1K": "ImageNet-1K"}

_COLUMNS: dict[Layout, tuple[tuple[str, ...], tuple[str, ...]]] = {
    # (needed, optional)
    "evaluation": (("qry_text", "qry_img_path", "tgt_text", "tgt_img_path"), ("qry_inst", "tgt_inst")),
    "training": (("qry", "qry_image_path", "pos_text", "pos_image_path"), ("neg_text", "neg_image_path")),
}
_SIGNS: dict[Layout, frozenset[str]] = {"evaluation": frozenset({"qry_text", "tgt_text"}), "training": frozenset({"qry", "pos_text"})}
# What is read where a subset has several splits; a subset with one split is read whatever it is called.
_PREFERRED: dict[Layout, tuple[str, ...]] = {"evaluation": ("test",), "training": ("original", "train")}
_SPLIT_NAMES = frozenset({"test", "original", "diverse_instruction", "train"})
_SHARD = re.compile(r"(?P<split>.+)-(?P<number>[0-9]{5})-of-(?P<count>[0-9]{5})")
_SUFFIXES = (".parquet", ".jsonl", ".jsonl.gz")


@dataclass(frozen=True)
class Subset:
    """One task of a folder: its name, and its files by split, shards in order."""

    name: str
    splits: dict[str, tuple[Path, ...]]

    def files(self, layout: Layout, split: str | None) -> tuple[Path, ...]:
        """The files of a split, or of the one that is meant without a name.

        Raises:
            InputError: there is no such split, or several and none that is usual.
        """
        if split is not None and split not in self.splits and "" not in self.splits:
            raise InputError(f"{self.name} has no split {split!r}; {near_names(split, self.splits)}")
        if "" in self.splits:
            return self.splits[""]
        chosen = split or next((name for name in _PREFERRED[layout] if name in self.splits), None)
        if chosen is None and len(self.splits) > 1:
            usual = " or ".join(_PREFERRED[layout])
            raise InputError(f"{self.name} has the splits {', '.join(sorted(self.splits))}, none called {usual}: name one as split")
        return self.splits[chosen or next(iter(self.splits))]


def mmeb_layout(folder: Path) -> Layout | None:
    """Which of MMEB's layouts a folder holds, by the columns of the first file that has them; None for other folders."""
    if kind_of(folder) != "folder":
        return None
    below = (folder / name for name in folder_names(folder) if name != IMAGES and kind_of(folder / name) == "folder")
    for place in (folder, *below):
        for name, _ in _table_files(place):
            names = _names_of(place / name)
            for layout, signs in _SIGNS.items():
                if signs <= names:
                    return layout
    return None


def subset_kind(name: str) -> tuple[Meta, bool | None]:
    """The meta task of a subset and whether the benchmark has training data for it; ("other", None) for unknown ones.

    Example:
        >>> subset_kind("ImageNet_1K"), subset_kind("RefCOCO"), subset_kind("mine")
        (('classification', True), ('grounding', False), ('other', None))
    """
    return PUBLISHED.get(_ALIASES.get(name, name), ("other", None))


def find_subsets(folder: Path, wanted: Sequence[str] | None = None) -> tuple[Subset, ...]:
    """Find the subsets of a folder: one folder each, one file each, or the folder itself.

    Args:
        folder: holds `<Subset>/test-00000-of-00001.parquet` and the like, `<Subset>.jsonl`, or files of a split.
        wanted: names of subsets, in the order in which they are given back; None gives all, by name.

    Raises:
        InputError: there is none, one that is wanted is missing, or a shard is.
    """
    if kind_of(folder) != "folder":
        raise InputError(f"{folder} is no folder: give the folder with one folder per subset of MMEB")
    own = _by_split(folder)
    lone = {name: files for name, files in own.items() if name not in _SPLIT_NAMES}
    found = [Subset(name, {"": files}) for name, files in lone.items()]
    if len(own) > len(lone):
        found.append(Subset(folder.resolve().name, {name: files for name, files in own.items() if name in _SPLIT_NAMES}))
    for name in folder_names(folder):
        if name != IMAGES and kind_of(folder / name) == "folder" and (splits := _by_split(folder / name)):
            found.append(Subset(name, splits))
    subsets = {subset.name: subset for subset in sorted(found, key=lambda subset: subset.name)}
    if len(subsets) != len(found):
        names = [subset.name for subset in found]
        repeated = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{folder} holds the subset {repeated} twice, as a folder and as a file: move one away")
    if not subsets:
        raise InputError(f"{folder} holds no subset of MMEB: expected <Subset>/test-00000-of-00001.parquet and the like")
    for name in wanted or ():
        if name not in subsets:
            raise InputError(f"{folder} has no subset {name!r}; {near_names(name, subsets)}")
    return tuple(subsets.values()) if wanted is None else tuple(subsets[name] for name in dict.fromkeys(wanted))


def check_columns(where: str, names: Sequence[str], layout: Layout) -> None:
    """Refuse columns of another layout, and unknown, missing or repeated ones.

    Raises:
        InputError: says what was found.

    Example:
        >>> check_columns("x.parquet", ["qry", "qry_image_path", "pos_text", "pos_image_path"], "evaluation")
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: x.parquet has the columns of training, but evaluation was asked for: give the other folder
    """
    known, found = set(names), f"found columns {', '.join(names) or '(none)'}"
    other: Layout = "training" if layout == "evaluation" else "evaluation"
    if _SIGNS[other] <= known and not _SIGNS[layout] <= known:
        raise InputError(f"{where} has the columns of {other}, but {layout} was asked for: give the other folder")
    needed, optional = _COLUMNS[layout]
    rule = f"{layout} has {', '.join(needed)}, and optionally {', '.join(optional)}"
    if len(known) != len(names):
        raise InputError(f"{where}: a column name is repeated; {found}")
    missing = [name for name in needed if name not in known]
    if missing:
        raise InputError(f"{where}: column {', '.join(missing)} is missing; {found}; {rule}")
    unknown = sorted(known - {*needed, *optional})
    if unknown:
        raise InputError(f"{where}: unknown column {', '.join(unknown)}; {found}; {rule}")


def read_rows(path: Path, layout: Layout) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (number, values by column) of a parquet or jsonl file: 1-based rows of parquet, lines of jsonl.

    Raises:
        InputError: it cannot be read, or has other columns.
    """
    if path.suffix == ".parquet":
        yield from _parquet_rows(path, layout)
        return
    accepted: set[tuple[str, ...]] = set()
    for number, record in read_json_lines(path):
        if tuple(record) not in accepted:
            check_columns(f"{path}, row {number}", list(record), layout)
            accepted.add(tuple(record))
        yield number, record


def _parquet_rows(path: Path, layout: Layout) -> Iterator[tuple[int, dict[str, Any]]]:
    pa, pq = open_pyarrow()
    number = 0
    with reading(path), path.open("rb") as opened:
        try:
            file = pq.ParquetFile(opened)
            check_columns(str(path), file.schema_arrow.names, layout)
            # A row of evaluation holds up to a thousand candidates.
            for batch in file.iter_batches(batch_size=256):
                for record in batch.to_pylist():
                    number += 1
                    yield number, record
        except (pa.ArrowException, OSError) as error:
            raise InputError(f"{path} is not a readable parquet file: {error}") from None
        except UnicodeDecodeError:
            raise InputError(f"{path}, row {number + 1} or one of the next 255: holds text that is not UTF-8: repair it") from None


def _table_files(folder: Path) -> list[tuple[str, str]]:
    """Names of the readable files of a folder, with and without suffix."""
    found = []
    for name in folder_names(folder):
        suffix = next((suffix for suffix in _SUFFIXES if name.endswith(suffix)), None)
        if suffix is not None and kind_of(folder / name) == "file":
            found.append((name, name.removesuffix(suffix)))
    return found


def _by_split(folder: Path) -> dict[str, tuple[Path, ...]]:
    """The readable files of a folder by split."""
    shards: dict[str, dict[tuple[int, int], Path]] = {}
    for name, stem in _table_files(folder):
        match = _SHARD.fullmatch(stem)
        split, place = (match["split"], (int(match["number"]), int(match["count"]))) if match else (stem, (0, 1))
        if place in shards.setdefault(split, {}):
            raise InputError(f"{folder}: {shards[split][place].name} and {name} hold the same part: move one of them away")
        shards[split][place] = folder / name
    for split, files in shards.items():
        counts = {count for _, count in files}
        if len(counts) > 1 or {number for number, _ in files} != set(range(max(counts))):
            raise InputError(f"{folder}: the parts of {split} are not whole: found {', '.join(path.name for path in files.values())}")
    return {split: tuple(files[place] for place in sorted(files)) for split, files in shards.items()}


def _names_of(path: Path) -> frozenset[str]:
    """The columns of a file; none where it cannot be read, which its reader then says."""
    try:
        if path.suffix != ".parquet":
            return frozenset(next((record for _, record in read_json_lines(path)), {}))
        pa, pq = open_pyarrow()
        try:
            with reading(path), path.open("rb") as opened:
                return frozenset(pq.ParquetFile(opened).schema_arrow.names)
        except pa.ArrowException:
            return frozenset()
    except InputError:
        return frozenset()
