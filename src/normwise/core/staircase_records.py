"""What `normwise staircase` found: figures of order 0 and 1 along training, their stairs, and a verdict."""

from __future__ import annotations

from collections.abc import Mapping

from normwise.core.records import Record

Series = tuple[float | None, ...]


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

    A verdict needs `share` of the seeds. Order 1 is one of its own where it adds `own` of R^2 to order 0: set after addition had been
    seen, whose order 1 adds less than that.
    """

    rise: float
    stays: int
    learned: float
    share: float
    own: float


class StaircaseReport(Record):
    """What `normwise staircase demo` found.

    `loss`, `accuracy`, `alignment` and `null` are means over the seeds, and `spread` their standard deviations over seeds ("loss",
    "accuracy", "alignment_0", "alignment_1"); what is undefined is None. `rule` says what the figure of order 0 is: "pearson",
    "one minus mse" (all signatures of order 0 are equal, and the figure says whether all embeddings point one way), or "undefined".
    """

    verdict: StaircaseVerdict
    steps: tuple[int, ...]
    loss: Series
    accuracy: Series
    alignment: Mapping[str, Series]
    null: Mapping[str, Series]
    spread: Mapping[str, Series]
    rule: str
    stairs: tuple[StairRecord, ...]
    stairs_by_seed: tuple[SeedStairsRecord, ...]
    integrity: SeriesIntegrity
    predicted: PredictedStair
    beyond_order_0: tuple[BeyondOrderZero, ...] = ()
    tokens: tuple[TokenGroup, ...] = ()
    thresholds: StaircaseThresholds
    settings: StaircaseSettings
    source: str
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
