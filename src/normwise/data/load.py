"""One door for every kind of data: a built-in set, a BEIR folder, a file of named columns, a `datasets` folder, a hub id."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.config import DataConfig
from normwise.core.errors import InputError, MissingExtraError, near_names
from normwise.data.beir import read_beir
from normwise.data.beir_layout import beir_home, is_beir
from normwise.data.builtin import BUILTIN
from normwise.data.clusters import components
from normwise.data.columns import RULE, SUFFIXES, PairRows, dataset_rows, is_pair_file, read_pair_file
from normwise.data.contents import Content, pictures_of
from normwise.data.hygiene import drop_bad_pairs, refuse_contradictions
from normwise.data.mmeb import read_mmeb_train
from normwise.data.mmeb_layout import mmeb_layout
from normwise.data.opening import folder_names, kind_of, user_path
from normwise.data.picture_columns import PictureSource, is_picture_column, parse_color
from normwise.data.picture_decoding import Color
from normwise.data.sets import Corpus, Origin, RetrievalData, TrainingPairs, is_skewed
from normwise.data.splits import carve, cut, judge_pairs
from normwise.data.tasks import with_instructions

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+|[A-Za-z0-9][\w-]*")
_NEAR = "did you mean"
_PICTURE_ENDINGS = (".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff", ".ppm", ".avif")
_HUB_SPLITS = {"train": "train", "dev": "dev", "validation": "dev", "valid": "dev", "test": "test"}


def load_data(config: DataConfig, *, seed: int, cache_dir: Path | None = None) -> RetrievalData:
    """Load the data that a config names.

    Args:
        config: `name` is, in this order, a built-in set, a BEIR folder, a `datasets` folder or one of files called after
            splits (train.jsonl), a file of named columns, or a hub id of a set with such columns. Names of pictures begin at
            that folder, or at the folder of the file, unless `image_root` is given.
            `dev` and `test` name files of named columns. A missing dev or test
            split is split off the training pairs by clusters, drawn from the seed; the notes say so.
        seed: decides the splits and the cuts of `limit_*`; nothing else.
        cache_dir: where built-in sets are cached; None means `builtin.default_cache()`.

    Returns:
        The data, cut to the limits. With `on_bad_rows = "drop"`, `dropped` counts what was left out, by reason.

    Raises:
        InputError: nothing of that name, or bad content; the message names file, row and column.

    Example:
        >>> load_data(DataConfig(name="pyhton-docs"), seed=0)
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: data 'pyhton-docs' is unknown: did you mean python-docs or python-calls?
    """
    if (config.dev or config.test) and config.name in BUILTIN:
        raise InputError(f"data.dev and data.test belong to files of named columns; {config.name!r} brings its own splits")
    sources: Sequence[str] | None = None
    _refuse_picture_settings(config)
    if (builtin := BUILTIN.get(config.name)) is not None:
        data = builtin.build(roots=config.roots, cache_dir=cache_dir)
        absent = frozenset({"train", "dev", "test"})
    elif config.roots is not None:
        raise InputError(f"data.roots belongs to a built-in set ({', '.join(BUILTIN)}), but data.name is {config.name!r}")
    else:
        data, absent, sources = _load_outside(config)
    return _prepared(data, absent, sources, config, seed=seed)


def _refuse_picture_settings(config: DataConfig) -> None:
    """Settings of pictures apply where rows name pictures: built-in sets bring theirs, or have none."""
    given = [name for name, value in (("image_root", config.image_root), ("background", config.background)) if value not in (None, "white")]
    if given and config.name in BUILTIN:
        raise InputError(f"data.{given[0]} belongs to files of named columns with pictures: leave it out for {config.name!r}")


def load_to_judge(config: DataConfig, *, seed: int, cache_dir: Path | None = None, as_trained: bool = False) -> tuple[RetrievalData, bool]:
    """Load what an encoder is judged on: as `load_data`, but pairs without splits of their own are all test queries.

    Args:
        config: as in `load_data`.
        seed: decides the cuts of `limit_*`, and nothing else.
        cache_dir: as in `load_data`.
        as_trained: the encoder was trained by this config: what training held out is test, as in `load_data`.

    Returns:
        The data, and whether every row was made a test query.

    Raises:
        InputError: as `load_data`.
    """
    path = user_path(config.name, what="data")
    if as_trained or config.name in BUILTIN or config.roots is not None or (kind_of(path) == "folder" and is_beir(path)):
        return load_data(config, seed=seed, cache_dir=cache_dir), False
    parts = _read_parts(path, config)
    if set(parts) != {"train"}:
        return _prepared(*_of_parts(parts, config), config, seed=seed), False
    data = with_instructions(_noted(pairs_data({"test": parts["train"]}, name=config.name)), config.instructions)
    return cut(_with_own_pictures(data, config), config, seed=seed), True


def _load_outside(config: DataConfig) -> tuple[RetrievalData, frozenset[str], Sequence[str] | None]:
    path = user_path(config.name, what="data")
    if kind_of(path) == "folder" and is_beir(path):
        if config.dev or config.test:
            raise InputError(f"{path} is a BEIR folder with qrels of its own: leave data.dev and data.test out")
        return (*read_beir(path, on_bad_rows=config.on_bad_rows, pictures=picture_source(config)), None)
    if kind_of(path) == "folder" and (layout := mmeb_layout(path)) is not None:
        return _mmeb(path, layout, config), frozenset(), None
    return _of_parts(_read_parts(path, config), config)


def _mmeb(path: Path, layout: str, config: DataConfig) -> RetrievalData:
    """Training pairs in MMEB's layout; dev and test are split off."""
    if layout != "training":
        raise InputError(f"{path} is in MMEB's evaluation layout, whose queries have their own candidate sets: use normwise evaluate")
    if config.dev or config.test:
        raise InputError(
            f"{path} is a folder in MMEB's training layout, from which dev and test are split off: leave data.dev and data.test out"
        )
    root = None if config.image_root is None else user_path(config.image_root, what="data.image_root")
    return read_mmeb_train(
        path, image_root=root, on_bad_rows=config.on_bad_rows, background=_color(config), check_pictures=config.check_pictures
    )


def _of_parts(parts: Mapping[str, PairRows], config: DataConfig) -> tuple[RetrievalData, frozenset[str], Sequence[str] | None]:
    return pairs_data(parts, name=config.name), frozenset(), parts["train"].sources if "train" in parts else None


def _prepared(
    data: RetrievalData, absent: frozenset[str], sources: Sequence[str] | None, config: DataConfig, *, seed: int
) -> RetrievalData:
    """Drop what is to be dropped, split off what is missing, and cut to the limits."""
    if config.on_bad_rows == "drop" and sources is None:
        data = drop_bad_pairs(data)  # before the split, which loses sight of the negatives; pair files have dropped theirs
    data = _complete(data, absent, sources, seed=seed)
    if config.on_bad_rows == "drop":
        data = drop_bad_pairs(data)
    if data.train is not None and len(data.train) < 2:
        raise InputError(f"{config.name}: {len(data.train)} training pair(s): a query needs another row as its negative, give at least 2")
    return cut(_with_own_pictures(with_instructions(_noted(data), config.instructions), config), config, seed=seed)


def _noted(data: RetrievalData) -> RetrievalData:
    """Say beside every result what was left out."""
    count = sum(data.dropped.values())
    if not count or any(" left out: " in note for note in data.notes):
        return data
    reasons = "; ".join(f"{number:,} {reason}" for reason, number in sorted(data.dropped.items(), key=lambda each: -each[1])[:5])
    return replace(data, notes=(*data.notes, f"{count:,} {'row was' if count == 1 else 'rows were'} left out: {reasons}"))


def _with_own_pictures(data: RetrievalData, config: DataConfig) -> RetrievalData:
    """What the settings say of queries' own pictures, written into the judged queries."""
    if config.own_pictures == "exclude":
        return data
    parts = {split: part for split in ("dev", "test") if (part := getattr(data, split)) is not None}
    return replace(data, **{split: replace(part, own_pictures=config.own_pictures) for split, part in parts.items()})


def _read_parts(path: Path, config: DataConfig) -> dict[str, PairRows]:
    """Rows of named columns by split, from a `datasets` folder, a file or the hub, and from data.dev and data.test."""
    kind = kind_of(path)
    if kind == "file" and (folder := beir_home(path)) is not None:
        raise InputError(f"{path} is one file of a BEIR folder: give the folder, {folder}")
    if kind is None and (is_pair_file(path) or not _HUB_ID.fullmatch(config.name)) and (near := _near_paths(path)):
        raise InputError(f"{path} does not exist: {near}")
    if kind == "folder":
        parts = _from_disk(path, config)
    elif kind == "file" or is_pair_file(path):
        parts = {"train": read_pair_file(path, on_bad_rows=config.on_bad_rows, pictures=picture_source(config))}
    elif kind == "other":
        raise InputError(f"{path} is a device or a pipe: expected a folder, or a file ending in {', '.join(SUFFIXES)}")
    elif _HUB_ID.fullmatch(config.name):
        parts = _from_hub(config)
    else:
        raise InputError(f"{path} does not exist: expected a built-in set ({', '.join(BUILTIN)}), a folder, a file or a hub id")
    for split, name in (("dev", config.dev), ("test", config.test)):
        if name is not None:
            if split in parts:
                raise InputError(f"{config.name} has a {split} split of its own: leave data.{split} out")
            file = user_path(name, what=f"data.{split}")
            parts[split] = read_pair_file(file, on_bad_rows=config.on_bad_rows, pictures=picture_source(config))
    return parts


def _near_paths(path: Path) -> str:
    """Say which data beside a path that leads nowhere have a name like it, built-in sets among those of a bare name; else nothing."""
    folder, names = path.parent, list(BUILTIN) if path.parent == Path() else []
    if kind_of(folder) == "folder":
        names += [name for name in folder_names(folder) if kind_of(folder / name) == "folder" or is_pair_file(Path(name))]
    near = near_names(path.name, names)
    return "" if not near.startswith(_NEAR) else near if folder == Path() else f"in {folder}, {near}"


def _import_datasets() -> Any:
    try:
        import datasets
    except ImportError:
        raise MissingExtraError("datasets", extra="train") from None
    return datasets


def _from_disk(path: Path, config: DataConfig) -> dict[str, PairRows]:
    if not any(kind_of(path / name) == "file" for name in ("dataset_dict.json", "dataset_info.json", "state.json")):
        if files := _split_files(path):
            source = picture_source(config)
            return {split: read_pair_file(file, on_bad_rows=config.on_bad_rows, pictures=source) for split, file in files.items()}
        names = folder_names(path)
        held = ", ".join(names[:8]) or "nothing"
        if names and all(name.lower().endswith(_PICTURE_ENDINGS) for name in names):
            raise InputError(
                f"{path} holds pictures alone: write a file beside them that names each with its text, a row such as "
                f'{{"query": "...", "positive_image": "{names[0]}"}} in pairs.jsonl, and give that file'
            )
        raise InputError(
            f"{path} is neither a BEIR folder (corpus.jsonl) nor a folder written by datasets.save_to_disk, and holds no file called after "
            f"a split (train.jsonl, dev.csv, test.parquet), and no subset in MMEB's layout (qry_text, tgt_text): it holds {held}"
        )
    datasets = _import_datasets()
    try:
        loaded = datasets.load_from_disk(str(path))
    except Exception as error:  # the library looks at none of the values in its JSON files before it uses them
        reason = str(error) if isinstance(error, OSError | ValueError) else f"its JSON files are not what datasets writes ({error!r:.100})"
        raise InputError(f"{path} is not a whole `datasets` folder: {reason}") from None
    return _dataset_parts(loaded, config, home=path)


def _split_files(path: Path) -> dict[str, Path]:
    """The files of named columns in a folder that are called after splits, as `datasets.load_dataset` reads such a folder.

    Raises:
        InputError: two files for one split.
    """
    found: dict[str, Path] = {}
    for name in folder_names(path):
        split = _HUB_SPLITS.get(name.partition(".")[0]) if is_pair_file(Path(name)) and kind_of(path / name) == "file" else None
        if split is not None and split in found:
            raise InputError(f"{path} holds {found[split].name} and {name}, both of the {split} split: move one of them away")
        if split is not None:
            found[split] = path / name
    return found


def _from_hub(config: DataConfig) -> dict[str, PairRows]:
    # A set of the hub may be named like a file here, but none is to be named like a built-in set.
    if "/" not in config.name and near_names(config.name, BUILTIN).startswith(_NEAR):
        raise InputError(f"data {config.name!r} is unknown: {_near_paths(Path(config.name))}")
    try:
        loaded = _import_datasets().load_dataset(config.name)
    except MissingExtraError:
        if near := _near_paths(Path(config.name)):
            raise InputError(f"data {config.name!r} is unknown: {near}") from None
        raise
    except Exception as error:  # the hub client raises a dozen unrelated types, offline among them
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        near = _near_paths(Path(config.name))
        raise InputError(
            f"data {config.name!r} is no built-in set ({', '.join(BUILTIN)}), no file and no folder, and it could not be "
            f"loaded from the hub: {reason:.200}; {near or 'check the name and the network, or give a local path'}"
        ) from None
    return _dataset_parts(loaded, config)


def _dataset_parts(loaded: Any, config: DataConfig, *, home: Path | None = None) -> dict[str, PairRows]:
    splits: Mapping[str, Any] = loaded if isinstance(loaded, Mapping) else {"train": loaded}
    parts: dict[str, PairRows] = {}
    for name, dataset in splits.items():
        split = _HUB_SPLITS.get(str(name))
        if split is None or split in parts:
            raise InputError(f"{config.name}: split {name!r} is unknown or repeated: expected train, dev (or validation) and test")
        where = f"{config.name}[{name}]"
        parts[split] = dataset_rows(
            where,
            _undecoded(dataset),
            dataset.column_names,
            on_bad_rows=config.on_bad_rows,
            home=home,
            pictures=picture_source(config),
        )
    return parts


def _undecoded(dataset: Any) -> Any:
    """The data set with its pictures as bytes: decoded by `datasets`, some would be other pictures (CMYK, 16 bits)."""
    from datasets import Image

    for name, feature in (getattr(dataset, "features", None) or {}).items():
        if is_picture_column(name):
            inner = getattr(feature, "feature", feature)
            if isinstance(inner, Image):
                dataset = dataset.cast_column(name, Image(decode=False) if inner is feature else type(feature)(Image(decode=False)))
    return dataset


def picture_source(config: DataConfig) -> PictureSource:
    """Where the pictures of a set stand and how they are shown, as its settings say.

    Raises:
        InputError: `image_root` is no folder.
    """
    root = None if config.image_root is None else user_path(config.image_root, what="data.image_root")
    if root is not None and kind_of(root) != "folder":
        raise InputError(f"data.image_root: {root} is not a folder: give the folder that holds the pictures")
    return PictureSource(root=root, background=_color(config), check=config.check_pictures)


def _color(config: DataConfig) -> Color | None:
    return None if config.background is None else parse_color(config.background)


def pairs_data(parts: Mapping[str, PairRows], *, name: str) -> RetrievalData:
    """Bring rows of named columns over one corpus: the distinct contents of all positives and negatives of all splits.

    Args:
        parts: rows by split (train, dev, test).
        name: of the set.

    Returns:
        Data whose missing splits are None.
    """
    numbers: dict[Content, int] = {}
    places: list[tuple[str, int]] = []
    for rows in parts.values():
        for line, positive, negatives in zip(rows.rows, rows.positives, rows.negatives, strict=True):
            for content in (positive, *negatives):
                if numbers.setdefault(content, len(numbers)) == len(places):
                    places.append((rows.file, int(line)))
    origin = Origin(name, np.asarray([line for _, line in places], dtype=np.int64)) if len(parts) == 1 else None
    corpus = Corpus(tuple(f"c{number}" for number in range(len(numbers))), tuple(numbers), origin, _pools(parts, numbers))
    pairs = {split: _pairs(rows, corpus, numbers) for split, rows in parts.items()}
    train = pairs.get("train")
    dropped: Counter[str] = Counter()
    for rows in parts.values():
        dropped.update(rows.dropped)
    return RetrievalData(
        name=name,
        kind="pairs",
        train=train,
        dev=judge_pairs(pairs["dev"], prefix="dev") if "dev" in pairs else None,
        test=judge_pairs(pairs["test"], prefix="test") if "test" in pairs else None,
        skewed=train is not None and is_skewed(train.positives),
        dropped=dict(dropped),
    )


def _pools(parts: Mapping[str, PairRows], numbers: Mapping[Content, int]) -> dict[str, tuple[int, ...]]:
    """For each task the candidates that stand in its rows; empty for a set of one task."""
    pools: dict[str, set[int]] = {}
    for rows in parts.values():
        for task, positive, negatives in zip(rows.tasks, rows.positives, rows.negatives, strict=False):
            pools.setdefault(task, set()).update(numbers[content] for content in (positive, *negatives))
    return {task: tuple(sorted(known)) for task, known in sorted(pools.items())}


def _pairs(rows: PairRows, corpus: Corpus, numbers: Mapping[Content, int]) -> TrainingPairs:
    keys: list[list[Hashable]] = []
    for row, (query, positive) in enumerate(zip(rows.queries, rows.positives, strict=True)):
        source = [("source", rows.sources[row])] if rows.sources and rows.sources[row] else []
        # Questions about one picture are no independent draws.
        asked = [("picture", picture) for picture in pictures_of(query)]
        keys.append([("query", query), ("target", positive), *source, *asked])
    return TrainingPairs(
        queries=rows.queries,
        positives=np.asarray([numbers[content] for content in rows.positives], dtype=np.int64),
        negatives=tuple(tuple(numbers[content] for content in contents) for contents in rows.negatives),
        corpus=corpus,
        clusters=components(keys),
        origin=Origin(rows.file, rows.rows),
        tasks=rows.tasks,
    )


def _complete(data: RetrievalData, absent: frozenset[str], sources: Sequence[str] | None, *, seed: int) -> RetrievalData:
    missing = [split for split in ("dev", "test") if getattr(data, split) is None and split not in absent]
    if data.train is None or not missing:
        return data
    if len(data.train) == 1:
        raise InputError(f"{data.name}: one row, so its query has no negative: give at least 2 training pairs; {RULE}")
    refuse_contradictions(data.train)
    train, parts, note = carve(data.train, missing=missing, seed=seed, where=data.name, sources=sources)
    return replace(data, train=train, skewed=is_skewed(train.positives), notes=(*data.notes, note), **parts)
