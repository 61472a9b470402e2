"""What `normwise staircase` found: figures of order 0 and 1 along training, their stairs, and a verdict."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from normwise.core.records import Record

Series = tuple[float | None, ...]


def series_of(values: Iterable[float]) -> Series:
    """Values as a record holds them: what is undefined is None.

    Example:
        >>> series_of([0.5, float("nan")])
        (0.5, None)
    """
    return tuple(float(value) if math.isfinite(value) else None for value in values)


class StairRecord(Record):
    """The stair of one order in the mean series, and in how many seeds (`seeds`) the order has a stair of its own series.

    `onset` is None where the mean series shows none, and `note` says how near it came; `peak` is the highest figure less its null.
    `earliest` and `latest` are onsets over the seeds that have one.
    """

    order: int
    onset: int | None
    peak_step: int | None
    peak: float | None
    decay: float | None
    seeds: int
    earliest: int | None
    latest: int | None
    note: str = ""


class SeedStairsRecord(Record):
    """Onset steps of one seed, None where there is none; `task` is the step at which the task is learned."""

    seed: int
    order_0: int | None
    order_1: int | None
    task: int | None
    in_order: bool


class SeriesIntegrity(Record):
    """Pairs of steps: copies of the embedding that are equal byte by byte, missing checkpoints, moves out of proportion; in any seed."""

    duplicates: tuple[tuple[int, int], ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()
    jumps: tuple[tuple[int, int], ...] = ()


class StaircaseVerdict(Record):
    """A word of a fixed list, and a sentence."""

    label: str
    text: str


class PredictedStair(Record):
    """The order-0 stair as the law of the task predicts it before training.

    `exists` is False where order 0 has nothing to move, and `reason` says why. `growth_rate` is sigma_1 at sigma'(0) = 1/2, a ReLU's mean
    slope, and `steps` when its direction has grown from the init to 1; `steps_at_slope_1` is the same where embeddings have turned to the
    active half. None where the closed form does not apply.
    """

    exists: bool
    reason: str
    growth_rate: float | None = None
    steps: float | None = None
    steps_at_slope_1: float | None = None


class BeyondOrderZero(Record):
    """R^2 of embeddings' similarities on order 0, what order 1 adds (`gain`), and the same of permuted signatures; means over seeds."""

    step: int
    r2_order_0: float | None
    gain: float | None
    null: float | None


class TokenGroup(Record):
    """Mean length of the embeddings of some tokens, and mean attention that they get, at every step."""

    name: str
    norm: Series
    attention: Series


class StaircaseSettings(Record):
    """What was trained. `modulus` is that of `mod`, and the number of values of `add`; None for `parity`."""

    task: str
    modulus: int | None
    vocabulary: int
    labels: int
    model: str
    width: int
    gamma: float
    optimizer: str
    learning_rate: float
    steps: int
    seeds: tuple[int, ...]


class StaircaseThresholds(Record):
    """A rise is `rise` above the null at `stays` checkpoints in a row; a task is learned at accuracy `learned`: set before any run.

    `learned` is None of running text, of which there is no such point.

    A verdict needs `share` of the seeds. Order 1 is one of its own where it adds `own` of R^2 to order 0: set after addition had been
    seen, whose order 1 adds less than that.
    """

    rise: float
    stays: int
    learned: float | None
    share: float
    own: float


class TokenMap(Record):
    """The tokens' embeddings at a step, drawn flat: their first two principal components, after the mean is taken off.

    `points` are (x, y) in the order of `names`; `shares` are the parts of the variance along x and y. Each axis points so that its largest
    entry is positive: signs of components are arbitrary.
    """

    step: int
    names: tuple[str, ...]
    points: tuple[tuple[float, float], ...]
    shares: tuple[float, float]


class TokenNeighbors(Record):
    """The tokens nearest to one, by cosine of order-0 signatures and of embeddings at the last step, nearest first."""

    token: str
    by_signature: tuple[str, ...]
    by_embedding: tuple[str, ...]


class StairsReport(Record):
    """What every report on a staircase holds, whoever trained; `report` is where a page of it was written.

    All series are as long as `steps`; what is undefined, or was not told, is None. `alignment` and `null` are by order ("0", "1", ..).
    """

    verdict: StaircaseVerdict
    steps: tuple[int, ...]
    loss: Series
    accuracy: Series
    alignment: Mapping[str, Series]
    null: Mapping[str, Series]
    stairs: tuple[StairRecord, ...]
    stairs_by_seed: tuple[SeedStairsRecord, ...]
    integrity: SeriesIntegrity
    predicted: PredictedStair
    maps: tuple[TokenMap, ...] = ()
    neighbors: tuple[TokenNeighbors, ...] = ()
    source: str
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    report: str | None = None


class StaircaseReport(StairsReport):
    """What `normwise staircase demo` found.

    `loss`, `accuracy`, `alignment` and `null` are means over the seeds, and `spread` their standard deviations over seeds ("loss",
    "accuracy", "alignment_0", "alignment_1"); what is undefined is None. `rule` says what the figure of order 0 is: "pearson",
    "one minus mse" (all signatures of order 0 are equal, and the figure says whether all embeddings point one way), or "undefined".
    """

    spread: Mapping[str, Series]
    rule: str
    beyond_order_0: tuple[BeyondOrderZero, ...] = ()
    tokens: tuple[TokenGroup, ...] = ()
    thresholds: StaircaseThresholds
    settings: StaircaseSettings


class OrderGain(Record):
    """What one order adds to the lower ones at a step: R^2 of embeddings' similarities on held-out tokens, beside its null.

    `order` -1 is how often the two tokens occur, which comes before every order. `r2` is that of all up to this one; `null` is the gain
    where this order's rows are permuted.
    """

    step: int
    order: int
    r2: float | None
    gain: float | None
    null: float | None


class TrackThresholds(Record):
    """A rise is `rise` above the null and `spreads` standard deviations of the null at `stays` checkpoints in a row.

    A peak is followed by a decay where the last figure is lower by `falls` or more. All were set before any checkpoint was seen.
    """

    rise: float
    spreads: float
    stays: int
    falls: float


class TrackSettings(Record):
    """What was counted and compared.

    `window` is the number of tokens before a position that order 1 and 2 look at, None for all of the document; `sketches` the number
    of random probes of an order that was not counted exactly, None where none was; `table` the tensor's name, "" in a training.
    """

    orders: tuple[int, ...]
    tokens: int
    next_tokens: int
    contexts: int | None
    window: int | None
    sketches: int | None
    vocabulary: int
    corpus_tokens: int
    table: str
    engine: str
    seed: int


class TrackReport(StairsReport):
    """What `normwise staircase track` or a `StaircaseCallback` found: one training, so that `stairs_by_seed` is empty.

    `loss` and `accuracy` are what the training itself told, if it did. By order: `spread` is the standard deviation of the null over
    permutations of tokens, and `spearman` the alignment of ranks. `gains` is what an order adds to the lower ones at some steps;
    `norm_frequency` Spearman's correlation of the length of embeddings with how frequent their tokens are.
    """

    spread: Mapping[str, Series]
    spearman: Mapping[str, Series]
    gains: tuple[OrderGain, ...] = ()
    norm_frequency: Series = ()
    thresholds: TrackThresholds
    settings: TrackSettings


class StairForecast(Record):
    """What `normwise staircase predict` says of a corpus before anything is trained on it.

    `growth_rates` are singular values of the drive of order 0, falling, and `steps` when each direction has grown from `init_scale` to 1
    at `learning_rate`, with plain gradient descent.
    """

    predicted: PredictedStair
    growth_rates: tuple[float, ...]
    steps: tuple[float | None, ...]
    init_scale: float
    learning_rate: float
    tokens: int
    next_tokens: int
    vocabulary: int
    corpus_tokens: int
    text: str
    source: str
    notes: tuple[str, ...] = ()
