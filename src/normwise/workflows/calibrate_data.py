"""The queries of a calibration: judged over one corpus, of known clusters, some of them without an answer."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from normwise.core.config import DataConfig
from normwise.core.errors import InputError
from normwise.data.beir import read_beir
from normwise.data.beir_layout import CORPUS, QUERIES, beir_file, is_beir, unjudged_queries
from normwise.data.beir_queries import NO_ANSWER
from normwise.data.builtin import BUILTIN
from normwise.data.clusters import components
from normwise.data.columns import BadRowsError
from normwise.data.contents import sameness
from normwise.data.lines import read_lines
from normwise.data.load import load_data, load_to_judge, picture_source
from normwise.data.opening import kind_of, user_path
from normwise.data.own_pictures import as_ranked
from normwise.data.sets import Judged, Origin, RetrievalData, TrainingPairs
from normwise.data.settings import data_settings, is_training_config
from normwise.data.splits import cut
from normwise.data.texts import printable
from normwise.workflows.calibrate_frequency import query_frequency
from normwise.workflows.calibrate_overlap import TOO_MUCH, known_from_training, without_repeated

_KNOWN_ANSWERS = f"every row is a query here: a model that was trained on these rows {TOO_MUCH}"
_HELD_OUT = (
    "only training pairs came, so queries are those that `normwise train` holds out of them with the same seed: a model that was "
    f"trained on all of them {TOO_MUCH}"
)
_WAY_OUT = (
    "repair these rows, or take them out, with their judgements and their rows of bare vectors (rows of vectors count from 0, those "
    "named here from 1)"
)
_NAMED = 3


@dataclass(frozen=True)
class Asked:
    """Judged queries over one corpus.

    `from_dev` (B,) says which come from a dev split of the data, `hidden` (B,) from which the relevant candidates are kept,
    so that they stand for queries without an answer. `clusters` are those by which queries are split. `popularity` (N,)
    counts how often each candidate is a positive in training, where training repeats positives; `frequency` (B,) how often
    each query is asked, where the data say so. `unjudged` is the note on queries without a judgement, where there are some.
    """

    name: str
    judged: Judged
    from_dev: np.ndarray
    hidden: np.ndarray
    popularity: np.ndarray | None
    notes: tuple[str, ...]
    frequency: np.ndarray | None = None
    unjudged: tuple[str, ...] = ()

    @property
    def clusters(self) -> np.ndarray:
        """(B,) int64."""
        return self.judged.clusters

    @property
    def answerable(self) -> np.ndarray:
        """(B,) whether a relevant candidate can be found."""
        return np.array([bool(grades) for grades in self.judged.relevance], dtype=bool) & ~self.hidden

    def subset(self, rows: np.ndarray) -> Asked:
        """The queries at `rows`, in that order, over the same corpus."""
        return replace(
            self,
            judged=self.judged.subset(rows),
            from_dev=self.from_dev[rows],
            hidden=self.hidden[rows],
            frequency=None if self.frequency is None else self.frequency[rows],
        )


def load_asked(
    data: str | Path | RetrievalData | Judged,
    *,
    unanswerable: float | None = None,
    limit_queries: int | None = None,
    limit_candidates: int | None = None,
    seed: int = 0,
) -> Asked:
    """Load judged queries of dev and test over one corpus; training pairs are never among them.

    Args:
        data: a built-in set, a BEIR folder, a file of named columns, a `datasets` folder or hub id, or what is loaded already.
        unanswerable: share of the queries, 0..1, from which their relevant candidates are hidden.
        limit_queries: at most so many queries of each split, drawn by `seed`.
        limit_candidates: at most so many candidates; those that are relevant to a kept query always stay.
        seed: of the cuts and of the draw of hidden ones.

    Returns:
        The queries. Dev queries that search other candidates than test queries are left out, and the notes say so.

    Raises:
        InputError: bad content, no judged query, none with a relevant candidate, or a query that is in dev and in test.
    """
    limits = {"limit_queries": limit_queries, "limit_candidates": limit_candidates}
    try:
        loaded, notes = _loaded(data, limits, seed=seed)
    except BadRowsError as error:
        raise error.advising(_WAY_OUT) from None
    dev, test = _some(loaded.dev), _some(loaded.test)
    if dev is not None and test is not None and dev.corpus is not test.corpus and dev.corpus != test.corpus:
        notes.append("dev queries search other candidates than test queries: they were left out")
        dev = None
    if dev is not None and test is not None:
        dev, repeated = without_repeated(dev, test, may_drop=isinstance(data, str | Path) and str(data) in BUILTIN)
        notes += [f"{repeated:,} dev queries are test queries too: they were left out of dev"] if repeated else []
    notes += known_from_training({"dev": dev, "test": test}, loaded.train)
    parts = [part for part in (dev, test) if part is not None]
    if not parts:
        raise InputError(f"{loaded.name} has no judged query{_where(loaded)}: calibration needs qrels of queries that trained nothing")
    if not any(part.usable for part in parts):
        count = sum(map(len, parts))
        raise InputError(f"{loaded.name}: none of {count:,} queries has a relevant candidate{_where(loaded)}: check the judgements")
    judged = parts[0] if len(parts) == 1 else _joined(*parts)
    clusters, note = cluster(judged, own=[part.clusters for part in parts])
    hidden, hidden_note = _hide(judged, unanswerable, seed=seed)
    frequency, frequency_note = _frequency(data, judged)
    unjudged = _unjudged(data)
    return Asked(
        name=loaded.name,
        judged=replace(judged, clusters=clusters),
        from_dev=np.arange(len(judged)) < (0 if dev is None else len(dev)),
        hidden=hidden,
        popularity=_popularity(loaded, judged),
        notes=(*as_ranked(loaded.notes), *notes, *unjudged, *note, *hidden_note, *frequency_note),
        frequency=frequency,
        unjudged=tuple(unjudged),
    )


def cluster(judged: Judged, *, own: list[np.ndarray]) -> tuple[np.ndarray, list[str]]:
    """Join queries of the same content, of a shared relevant candidate, or of one cluster of the data.

    Where that puts more than half of them into one cluster, only equal texts are joined.

    Args:
        judged: B queries.
        own: clusters that the data bring, one array per split, in the order of the queries.

    Returns:
        (B,) int64, and a note where documents were not kept together.

    Example:
        >>> from normwise.data.sets import Corpus
        >>> corpus = Corpus(("a", "b"), ("x", "y"))
        >>> asked = Judged(("1", "2", "3"), ("p", "q", "P "), ({0: 1.0}, {1: 1.0}, {}), corpus, np.arange(3))
        >>> cluster(asked, own=[asked.clusters])[0].tolist()
        [0, 1, 0]
    """
    texts: list[Hashable] = [("text", sameness(content)) for content in judged.queries]
    mine = [("own", split, int(number)) for split, numbers in enumerate(own) for number in numbers]
    keys = [
        [text, own_key, *(("candidate", row) for row in grades)]
        for text, own_key, grades in zip(texts, mine, judged.relevance, strict=True)
    ]
    labels = components(keys)
    largest = int(np.bincount(labels).max())
    if largest <= len(judged) / 2:
        return labels, []
    note = (
        f"shared candidates (or sources) join {largest:,} of {len(judged):,} queries, so only queries of the same text are kept "
        "together: intervals may be too narrow"
    )
    return components([[text] for text in texts]), [note]


def rows_in_folder(asked: Asked, data: str | Path) -> tuple[np.ndarray, np.ndarray, int, int]:
    """Where queries and candidates stand in the files of a BEIR folder, as rows of vectors beside them.

    Args:
        asked: what `load_asked` read from it.
        data: the folder.

    Returns:
        (B,) rows of queries.jsonl, (N,) rows of corpus.jsonl, and how many rows these files have.

    Raises:
        InputError: it is no BEIR folder.
    """
    if str(data) in BUILTIN:
        raise InputError(f"{data} names the built-in set, which has no files of vectors: for a folder of that name write ./{data}")
    folder = user_path(data, what="data")
    if kind_of(folder) != "folder" or not is_beir(folder):
        raise InputError(
            f"{folder} is no BEIR folder: rows of bare vectors are those of its queries.jsonl and corpus.jsonl; give such a folder"
        )
    queries, query_count = _rows(folder, QUERIES, asked.judged.origin)
    corpus, corpus_count = _rows(folder, CORPUS, asked.judged.corpus.origin)
    return queries, corpus, query_count, corpus_count


def _rows(folder: Path, name: str, origin: Origin | None) -> tuple[np.ndarray, int]:
    """The rows of what came from some lines of a file, and how many rows it has: blank lines are none."""
    path = beir_file(folder, name)
    if path is None or origin is None or origin.file != str(folder / name):
        raise InputError(f"the queries did not come from {folder / name}: rows of bare vectors are those of its lines; give that folder")
    written = np.array([bool(line.strip()) for _, line in read_lines(path)], dtype=bool)
    return (np.cumsum(written) - 1)[origin.rows - 1], int(written.sum())


def _loaded(data: str | Path | RetrievalData | Judged, limits: dict[str, Any], *, seed: int) -> tuple[RetrievalData, list[str]]:
    if isinstance(data, Judged):
        data = RetrievalData(name="judged queries", kind="judged", train=None, dev=None, test=data, skewed=False)
    if not isinstance(data, str | Path):
        return cut(data, DataConfig.read({"name": data.name, **limits}, source="calibrate"), seed=seed), []
    config = data_settings(data, source="calibrate", **limits)
    path = user_path(config.name, what="data")
    if config.name not in BUILTIN and kind_of(path) == "folder" and is_beir(path):
        # As the folder says: nothing is split off training pairs, which a model may have learned by heart.
        found, _ = read_beir(path, on_bad_rows="refuse", pictures=picture_source(config))
        if found.dev is not None or found.test is not None:
            return cut(found, config, seed=seed), []
        return load_data(config, seed=seed), [_HELD_OUT]
    found, whole = load_to_judge(config, seed=seed, as_trained=is_training_config(data))
    if whole:
        return found, [_KNOWN_ANSWERS]
    held_out = [name for name in ("dev", "test") if _from_training(getattr(found, name), found.train)]
    if held_out == ["dev", "test"]:
        return found, [_HELD_OUT]
    for name in held_out:
        found = replace(found, **{name: None})
    return found, [f"the {name} queries that training would hold out of its pairs were not used" for name in held_out]


def _from_training(judged: Judged | None, train: TrainingPairs | None) -> bool:
    """Whether judged queries were split off the rows of training, which then stand in one file."""
    if judged is None or train is None or judged.origin is None or train.origin is None:
        return False
    return judged.origin.file == train.origin.file


def _some(judged: Judged | None) -> Judged | None:
    return judged if judged is not None and len(judged) else None


def _where(data: RetrievalData) -> str:
    files = [part.file for part in (data.dev, data.test) if part is not None and part.file is not None]
    return f" ({', '.join(dict.fromkeys(files))})" if files else ""


def _joined(dev: Judged, test: Judged) -> Judged:
    ids = (*dev.query_ids, *test.query_ids)
    return Judged(
        query_ids=ids,
        queries=(*dev.queries, *test.queries),
        relevance=(*dev.relevance, *test.relevance),
        corpus=test.corpus,
        clusters=np.arange(len(ids)),
        origin=_one_origin(dev.origin, test.origin),
        tasks=(*_tasks(dev), *_tasks(test)) if dev.tasks or test.tasks else (),
    )


def _tasks(judged: Judged) -> tuple[str, ...]:
    return judged.tasks or ("",) * len(judged)


def _one_origin(first: Origin | None, second: Origin | None) -> Origin | None:
    """Where rows of both come from, where that is one file."""
    if first is None or second is None or first.file != second.file:
        return None
    return Origin(first.file, np.concatenate([first.rows, second.rows]))


def _hide(judged: Judged, share: float | None, *, seed: int) -> tuple[np.ndarray, list[str]]:
    hidden = np.zeros(len(judged), dtype=bool)
    if share is None:
        return hidden, []
    if not 0.0 < share < 1.0:
        raise InputError(f"unanswerable is {share}; expected a share of the queries between 0 and 1, such as 0.3")
    answered = np.flatnonzero([bool(grades) for grades in judged.relevance])
    count = max(1, round(share * answered.size))
    hidden[np.random.default_rng([seed, 3]).choice(answered, count, replace=False)] = True
    note = (
        f"{count:,} of {answered.size:,} queries were made unanswerable: their relevant candidates were taken out of what they "
        f"search (share {share:g}, seed {seed}); copies of these under other ids stay, and count as wrong"
    )
    return hidden, [note]


def _unjudged(data: str | Path | RetrievalData | Judged) -> list[str]:
    """Say which queries of a BEIR folder take no part, because nothing says whether they have an answer."""
    if not isinstance(data, str | Path) or str(data) in BUILTIN:
        return []
    folder = user_path(data, what="data")
    if kind_of(folder) != "folder" or not is_beir(folder):
        return []
    names, count = unjudged_queries(folder)
    if not names:
        return []
    shown = ", ".join(repr(printable(name)) for name in names[:_NAMED]) + (", ..." if len(names) > _NAMED else "")
    return [
        f"{len(names):,} of {count:,} queries of {beir_file(folder, QUERIES)} have no judgement in qrels/train.tsv, dev.tsv or test.tsv "
        f'and take no part: {shown}; where nothing answers a query, say so in its line, "{NO_ANSWER}": true (see the guide on '
        "calibration), and judge the others"
    ]


def _frequency(data: str | Path | RetrievalData | Judged, judged: Judged) -> tuple[np.ndarray | None, list[str]]:
    if not isinstance(data, str | Path) or str(data) in BUILTIN:
        return None, []
    return query_frequency(user_path(data, what="data"), judged.query_ids)


def _popularity(data: RetrievalData, judged: Judged) -> np.ndarray | None:
    """Training counts of the candidates, where positives repeat in training; as for the usefulness of norms."""
    if data.train is None or not data.skewed:
        return None
    counts = dict(zip(data.train.corpus.ids, data.train.popularity().tolist(), strict=True))
    return np.array([counts.get(name, 0) for name in judged.corpus.ids], dtype=np.float64)
