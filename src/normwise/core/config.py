"""The settings of a run: strict, frozen, readable from TOML, JSON or YAML.

A stage is one `StageConfig`; PACE is two of them, run by one loop. No field is ever ignored: one that does not
apply to the chosen mode is refused. An unknown key is an error that lists near names.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, Any, Literal, Self

from pydantic import BeforeValidator, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from normwise.core.errors import near_names
from normwise.core.presets import preset_arms
from normwise.core.records import GEOMETRY
from normwise.core.similarity import Similarity
from normwise.core.strict import Number, Prose, StrictConfig, Switch, Text, Whole

UNTRAINED = "untrained"
EFFICIENTNET = "efficientnet-lite0"
# Pixels to a row or column of its last feature map, and the least side at which that says something of a picture.
_STRIDE, _SMALLEST_USEFUL = 32, 64
# What shows where a picture is transparent.
ColorName = Literal["white", "black"] | Annotated[str, Field(pattern="^#[0-9a-fA-F]{6}$")]
_LARGEST_SEED = 2**32 - 1
_SCALES = (1e-300, 1e300)
_TEMPERATURE_FORMS = (
    'expected a number, "match" or a table; a learnable one starts somewhere, as in temperature = { mode = "learnable", value = 0.05 }'
)


class Trainable(StrEnum):
    """What a stage trains: `lora` adapters, the `full` encoder, or only the `head` after pooling."""

    LORA = "lora"
    FULL = "full"
    HEAD = "head"


class NegativeSource(StrEnum):
    """Where a query's negatives come from, which decides whether a candidate prior can be learned.

    `in_batch`: other queries' positives; popularity is divided out (the optimum is pointwise mutual information).
    `corrected`: the same candidates with logit - log g per candidate in training, so that the optimum is log p(d|q).
    `uniform`: candidates drawn uniformly from the corpus, plus the query's own positive.
    """

    IN_BATCH = "in_batch"
    CORRECTED = "corrected"
    UNIFORM = "uniform"


class Weighting(StrEnum):
    """Per-query loss weights: none, focal, or one of the controls that focal has to beat."""

    NONE = "none"
    FOCAL = "focal"
    RANDOM = "random"
    QUERY_POSITIVE = "query_positive"
    QUERY_NEGATIVE = "query_negative"


_LATER_MODEL: dict[str, Any] = {"trust_remote_code": False, "vision": None, "chat_template": None}
_LATER_DATA: dict[str, Any] = {
    "image_root": None,
    "background": None,
    "check_pictures": True,
    "instructions": {},
    "own_pictures": "exclude",
}


def _without_later_defaults(values: dict[str, Any], later: Mapping[str, Any]) -> dict[str, Any]:
    """Leave settings out that came later and stand at their default.

    The hash of the JSON names a run's folder: runs that began before there was such a setting go on.
    """
    return {key: value for key, value in values.items() if key not in later or value != later[key]}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


class TemperatureConfig(StrictConfig):
    """Temperature tau > 0 that divides the score.

    `mode="fixed"` uses `value` (or `scale` = 1/value; never both). `mode="learnable"` starts there and learns
    log(1/tau) within `minimum`..`maximum`. `mode="match"` measures tau when the stage starts, so that the stage
    begins with the logits of the stage before (tau_2 = tau_1 * mean ||q|| * mean ||c|| from cosine to dot: the switch
    rule of PACE). With `match`, a given `value` is the cosine temperature whose logits to start from instead, which is
    how a first stage under dot gets a fair start.

    Example:
        >>> TemperatureConfig(scale=20.0).value
        0.05
    """

    mode: Literal["fixed", "learnable", "match"] = "fixed"
    value: Number | None = Field(default=None, gt=0)
    scale: Number | None = Field(default=None, gt=0, exclude=True)
    minimum: Number = Field(default=0.001, gt=0)
    maximum: Number = Field(default=1000.0, gt=0)

    @model_validator(mode="before")
    @classmethod
    def _one_meaning(cls, data: Any) -> Any:
        if isinstance(data, Mapping) and data.get("scale") is not None:
            if data.get("value") is not None:
                raise ValueError("give temperature as value or as scale = 1/value, not both")
            scale = data["scale"]
            if _is_number(scale) and scale > 0:
                if not _SCALES[0] <= scale <= _SCALES[1]:
                    raise ValueError(f"scale lies outside {_SCALES[0]}..{_SCALES[1]}")
                data = {**data, "value": 1.0 / scale}
        return data

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode != "match" and self.value is None:
            raise ValueError(f"mode {self.mode} needs value (or scale = 1/value)")
        if self.minimum >= self.maximum:
            raise ValueError(f"minimum {self.minimum} must be below maximum {self.maximum}")
        if self.value is not None and self.mode == "learnable" and not self.minimum <= self.value <= self.maximum:
            raise ValueError(f"value {self.value} lies outside minimum..maximum {self.minimum}..{self.maximum}")
        return self


def _read_temperature(value: Any) -> Any:
    if _is_number(value):
        return {"mode": "fixed", "value": value}
    if value == "match":
        return {"mode": value}
    if not isinstance(value, Mapping | TemperatureConfig):
        raise ValueError(_TEMPERATURE_FORMS)
    return value


Temperature = Annotated[TemperatureConfig, BeforeValidator(_read_temperature)]


class FocalConfig(StrictConfig):
    """Weights a_i = sg[(1 - p_i)^gamma] from the cosine confidence p_i, with unit mean over the batch.

    `temperature` is tau_w, the temperature of that confidence; None means the cosine temperature of the first stage
    of the recipe (the paper leaves the value out). `cap` bounds a single weight after the unit-mean step; the mean is
    then below 1 and is logged. Reference: PACE (arXiv 2609.15152), focal embedding loss.
    """

    weighting: Weighting = Weighting.FOCAL
    gamma: Number = Field(default=2.0, ge=0)
    temperature: Number | None = Field(default=None, gt=0)
    cap: Number | None = Field(default=None, gt=1)


class LoraConfig(StrictConfig):
    """Low-rank adapters on every linear map of the encoder (the pooler, which gets no gradient, left out).

    Of a model that reads pictures these are the maps of its text tower or language model; `vision` adds those of its
    vision tower, never those of the projector between them.
    """

    rank: Whole = Field(default=32, ge=1)
    alpha: Number = Field(default=64.0, gt=0)
    dropout: Number = Field(default=0.0, ge=0, lt=1)
    targets: tuple[Text, ...] | None = None
    vision: Switch = False

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_later_defaults(write(self), {"vision": False})


class NegativesConfig(StrictConfig):
    """Where negatives come from; see `NegativeSource`.

    `count` is the number of uniform draws per batch (source uniform only). `smoothing` is added to every training
    count before log g is taken (source corrected only).
    """

    source: NegativeSource = NegativeSource.IN_BATCH
    count: Whole | None = Field(default=None, ge=1)
    smoothing: Number | None = Field(default=None, ge=0)

    @model_validator(mode="after")
    def _applies(self) -> Self:
        if (self.count is not None) != (self.source is NegativeSource.UNIFORM):
            raise ValueError("count is needed with source uniform, and only there")
        if self.smoothing is not None and self.source is not NegativeSource.CORRECTED:
            raise ValueError("smoothing belongs to source corrected")
        return self


def _read_negatives(value: Any) -> Any:
    return {"source": value} if isinstance(value, str) else value


Negatives = Annotated[NegativesConfig, BeforeValidator(_read_negatives)]

Part = Literal["embeddings", "encoder", "norms", "head", "vision", "projector"]
# The vision tower and its projector stay frozen unless a stage names them, as in PACE.
PARTS: tuple[Part, ...] = ("embeddings", "encoder", "norms", "head")


class StageConfig(StrictConfig):
    """One stage of training: a similarity, what is trained, a temperature, a loss and a budget of steps.

    Where the data mix tasks, `batches` says whether a batch does too; by task, a query's in-batch negatives are answers of
    its own task.

    Example:
        >>> StageConfig(name="cosine", similarity="cosine", temperature=0.05, steps=10).temperature.value
        0.05
        >>> StageConfig.read({"name": "a", "temperature": 0.1, "stpes": 3})
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: config: unknown key 'stpes': did you mean steps?
    """

    name: str = Field(min_length=1, pattern=r"^[a-zA-Z0-9_.-]+$")
    similarity: Similarity = Similarity.COSINE
    trainable: Trainable = Trainable.FULL
    unfreeze: tuple[Part, ...] = Field(default=PARTS, min_length=1)
    lora: LoraConfig | None = None
    temperature: Temperature
    loss: Literal["infonce", "dcl"] = "infonce"
    symmetric: Switch = False
    focal: FocalConfig | None = None
    negatives: Negatives = NegativesConfig()
    hard_negatives: Whole = Field(default=0, ge=0)
    batches: Literal["mixed", "by_task"] = "mixed"
    learning_rate: Number = Field(default=2e-5, gt=0)
    weight_decay: Number = Field(default=0.01, ge=0)
    steps: Whole = Field(default=100, ge=1)
    warmup_ratio: Number = Field(default=0.05, ge=0, lt=1)
    scheduler: Literal["linear", "cosine", "constant_with_warmup"] = "linear"
    batch_size: Whole = Field(default=32, ge=1)
    accumulation: Whole = Field(default=1, ge=1)
    max_gradient_norm: Number = Field(default=1.0, gt=0)
    checkpoint_every: Whole | None = Field(default=None, ge=1)
    start_step: Whole | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def _applies(self) -> Self:
        if self.trainable is not Trainable.LORA and self.lora is not None:
            raise ValueError(f"lora settings given, but trainable is {self.trainable.value}: set trainable = lora, or leave lora out")
        if self.trainable is not Trainable.FULL and self.unfreeze != PARTS:
            raise ValueError("unfreeze belongs to trainable = full")
        if self.symmetric and self.negatives.source is not NegativeSource.IN_BATCH:
            raise ValueError("the symmetric loss needs in_batch negatives: each direction's candidates are the other side of the batch")
        if self.negatives.source is NegativeSource.CORRECTED and self.hard_negatives:
            raise ValueError("corrected negatives need hard_negatives 0: how often a mined negative is drawn is unknown, so log g is too")
        if self.loss == "dcl" and self.focal is not None:
            raise ValueError("focal weights are defined for the infonce loss: use one or the other")
        if self.batch_size == 1 and self.hard_negatives == 0 and self.negatives.source is not NegativeSource.UNIFORM:
            raise ValueError("batch_size 1 with hard_negatives 0 leaves every query without a negative: raise either")
        return self

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_later_defaults(write(self), {"batches": "mixed"})

    @property
    def lora_settings(self) -> LoraConfig:
        """The adapters' settings: those given, or the defaults."""
        return self.lora or LoraConfig()


class RadialHeadConfig(StrictConfig):
    """A Dense projection to fewer dimensions after pooling, which frees the norm of a norm-layer-terminated encoder."""

    dimensions: Whole = Field(ge=1)


class VisionConfig(StrictConfig):
    """A vision model put beside a text encoder, which makes a dual encoder of texts and pictures.

    `name` is a hub id or a folder of a transformers vision model, or efficientnet-lite0 (packaged weights). Both towers get a
    linear head to `dimensions`. `image_size` is the side in pixels to which pictures are resized; None keeps the model's own
    (efficientnet-lite0: 96).
    """

    name: Text = EFFICIENTNET
    dimensions: Whole = Field(default=256, ge=1)
    image_size: Whole | None = Field(default=None, ge=16)

    @model_validator(mode="after")
    def _fits(self) -> Self:
        if self.name == EFFICIENTNET and self.image_size is not None and self.image_size % _STRIDE:
            raise ValueError(f"image_size is {self.image_size}, and {EFFICIENTNET} takes multiples of {_STRIDE}: such as 64 or 96")
        return self

    @property
    def caution(self) -> str:
        """What to know of the size beforehand; empty where it is fine.

        On the drawings of the built-in sets the share of channels of efficientnet-lite0 that are exactly 0, mean over 600 pictures
        of each style, is .97 to .99 at 32 pixels (some pictures have none left), .70 to .73 at 64, .69 to .71 at 96, .53 to .55 at 224.
        """
        if self.name != EFFICIENTNET or self.image_size is None or self.image_size >= _SMALLEST_USEFUL:
            return ""
        return (
            f"vision.image_size is {self.image_size}: {EFFICIENTNET} answers such pictures with zeros in almost every channel, and some "
            f"with nothing else, whose vectors are zero then: give {_SMALLEST_USEFUL} or more"
        )


class ModelConfig(StrictConfig):
    """The encoder to start from.

    `name` is a hub id or a folder; `layers` cuts a transformer to its first layers; `head` adds a radial head; `vision` puts a
    vision model beside a text encoder; `chat_template` sets how a multimodal language model reads (pace, vlm2vec, own, or
    Jinja source). A `Normalize` module at the end is always left out, since the norm is what is trained. `trust_remote_code` runs program
    code that a model brings along, which can do whatever you can.
    """

    name: Text = "all-MiniLM-L6-v2"
    revision: Text | None = None
    layers: Whole | None = Field(default=None, ge=1)
    max_tokens: Whole | None = Field(default=None, ge=4)
    head: RadialHeadConfig | None = None
    query_prompt: Prose | None = None
    candidate_prompt: Prose | None = None
    trust_remote_code: Switch = False
    vision: VisionConfig | None = None
    chat_template: Prose | None = None

    @model_validator(mode="after")
    def _one_head(self) -> Self:
        if self.vision is not None and self.head is not None:
            raise ValueError("head and vision: a dual encoder has a head for each tower already, of vision.dimensions: leave head out")
        return self

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_later_defaults(write(self), _LATER_MODEL)


class DataConfig(StrictConfig):
    """The pairs to train on and the judged queries to choose and report on.

    `name` is a built-in set (`normwise data list`), a BEIR folder, a file of named columns (jsonl, csv, parquet), a
    `datasets` folder or a hub id. `limit_*` cut a set deterministically (by `seed` of the run).

    Pictures: `image_root` is the folder that their names are taken from (None: the folder of the file that names them),
    and that no name may leave; `background` is shown where one is transparent, by default what the model was trained with
    (white for a new one); `check_pictures` decodes each once before any work. `instructions` maps a task (column task) to
    the words that are written into its queries; the task `*` is every other. `own_pictures` says whether a query's own
    picture is ranked for it where it is a candidate.
    """

    name: Text
    roots: tuple[Text, ...] | None = None
    dev: Text | None = None
    test: Text | None = None
    limit_train: Whole | None = Field(default=None, ge=2)
    limit_queries: Whole | None = Field(default=None, ge=1)
    limit_candidates: Whole | None = Field(default=None, ge=2)
    on_bad_rows: Literal["refuse", "drop"] = "refuse"
    image_root: Text | None = None
    background: ColorName | None = None
    check_pictures: Switch = True
    instructions: dict[Text, Text] = {}
    own_pictures: Literal["exclude", "keep"] = "exclude"

    @model_serializer(mode="wrap")
    def _written(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return _without_later_defaults(write(self), _LATER_DATA)


class ClaimConfig(StrictConfig):
    """A claim, written down before the run: one (arm, ranking) has a higher figure than another on the test split.

    `figure` is a ranking metric (`ndcg@10`) or a geometry figure (`e3_knn`, `a1_random_cosine`, ...), of which there is
    one value per seed. At least 5 seeds are needed for a verdict; fewer can only say "undecided at this size".
    """

    name: Text
    higher: tuple[Text, Similarity]
    lower: tuple[Text, Similarity]
    figure: Text = "ndcg@10"

    @property
    def is_about_itself(self) -> bool:
        """Whether both sides are one number: the same arm, and a ranking or a figure that cannot tell them apart."""
        (arm, ranking), (other, other_ranking) = self.higher, self.lower
        return arm == other and (self.figure in GEOMETRY or ranking.ranking is other_ranking.ranking)


def _check_claims(claims: tuple[ClaimConfig, ...], arms: Mapping[str, Any]) -> None:
    names = [claim.name for claim in claims]
    for claim in claims:
        where = f"claim {claim.name!r}"
        if names.count(claim.name) > 1:
            raise ValueError(f"{where}: two claims share this name, and only one outcome could be told: give each its own")
        for arm, _ in (claim.higher, claim.lower):
            if arm not in arms:
                raise ValueError(f"{where}: arm {arm!r} is unknown: {near_names(arm, arms)}")
        if claim.is_about_itself:
            raise ValueError(f"{where}: higher and lower have the same {claim.figure} by definition: compare two arms or two rankings")


def _check_arm(arm: str, stages: tuple[StageConfig, ...]) -> None:
    where = f"arm {arm!r}"
    if arm == UNTRAINED:
        raise ValueError(f"{where}: this is the name of the encoder before training, which is always compared: choose another name")
    if not stages:
        raise ValueError(f"{where} has no stage")
    if stages[0].temperature.mode == "match" and stages[0].temperature.value is None:
        raise ValueError(f"{where}: its first stage has no stage before it to match: give value, the cosine temperature to start from")
    if stages[0].start_step is not None:
        raise ValueError(f"{where}: start_step picks a checkpoint of the stage before; the first stage has none")
    names = [stage.name for stage in stages]
    if len(set(names)) != len(names):
        raise ValueError(f"{where}: two stages share a name in {names}")
    for before, after in zip(stages, stages[1:], strict=False):
        if after.start_step is not None and after.start_step > before.steps:
            raise ValueError(
                f"{where}, stage {after.name!r}: start_step {after.start_step} lies past the {before.steps} steps of {before.name!r}"
            )


Seed = Annotated[Whole, Field(ge=0, le=_LARGEST_SEED)]


class PaceConfig(StrictConfig):
    """A whole run: data, encoder, one or more arms, seeds.

    An arm is a list of stages, or the name of a published recipe (`normwise.core.presets`); arms whose first stages are
    equal share them. The baselines are arms like any other.
    """

    data: DataConfig
    model: ModelConfig = ModelConfig()
    arms: Annotated[dict[Text, tuple[StageConfig, ...]], BeforeValidator(preset_arms), Field(min_length=1)]
    claims: tuple[ClaimConfig, ...] = ()
    seeds: tuple[Seed, ...] = Field(default=(0,), min_length=1)
    merge_tolerance: Number = Field(default=1e-4, gt=0)
    observe_every: Whole = Field(default=1, ge=1)
    evaluation_batch: Whole = Field(default=64, ge=1)
    precision: Literal["fp32", "bf16", "fp16"] = "fp32"
    report_to: tuple[Text, ...] = ()
    bootstrap: Whole = Field(default=1000, ge=100)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        for arm, stages in self.arms.items():
            _check_arm(arm, stages)
        _check_claims(self.claims, self.arms)
        if len(set(self.seeds)) != len(self.seeds):
            raise ValueError(f"a seed is repeated in {list(self.seeds)}")
        return self
