"""The calibration that lies beside a model: what a search turns scores into, for what it holds, and when it abstains."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

import numpy as np
from pydantic import Field, ValidationError, field_validator

from normwise.core.calibration_records import Confidence, Fingerprint, Target, ThresholdRecord, VerdictRecord
from normwise.core.errors import InputError
from normwise.core.problem_words import causes_of
from normwise.core.records import Record
from normwise.theory.applied_calibration import Applied
from normwise.theory.calibration_command import ADDRESS, calibrate_command, model_source, vectors_source
from normwise.theory.calibration_words import refusal_words
from normwise.theory.calibrators import AnyCalibrator
from normwise.theory.hit_lists import HitLists
from normwise.theory.logistic_calibrator import LogisticCalibrator
from normwise.theory.lower_hits import LowerHits
from normwise.theory.prior_calibrators import PriorCalibrator, RerankingCalibrator
from normwise.theory.softmax_calibrators import NormTemperatureCalibrator

FORMAT = 1
FILE = "calibration.json"
_SHOWN = 12


class Calibration(Record):
    """A fitted confidence with its threshold, verdict and evidence; `calibration.json` is exactly this.

    It holds for one model, similarity, kind of search and corpus: see `check`. `lower_hits` None means that nobody knows how
    probable a hit after the first is. `threshold` None means that the verdict found none. `evidence` are figures of test
    queries for the model card. `options` are those of the command that fitted it, as typed. `created` is an ISO date.
    """

    format: Literal[1] = FORMAT
    fingerprint: Fingerprint
    calibrator: AnyCalibrator
    lower_hits: LowerHits | None
    threshold: ThresholdRecord | None
    verdict: VerdictRecord
    target: Target
    confidence_level: Confidence
    evidence: Mapping[str, float | None] = Field(default_factory=dict)
    model_name: str = ""
    data_name: str = ""
    options: Mapping[str, str] = Field(default_factory=dict)
    created: str = Field(pattern=r"^\d{4}-\d{2}-\d{2}")
    versions: Mapping[str, str] = Field(default_factory=dict)

    @field_validator("format", mode="before")
    @classmethod
    def _check_format(cls, came: Any) -> Any:
        # For Python true is 1.
        if isinstance(came, bool):
            raise ValueError(f"expected {FORMAT}")
        return came

    @field_validator("fingerprint")
    @classmethod
    def _check_depth(cls, then: Fingerprint) -> Fingerprint:
        if then.depth > then.candidates:
            raise ValueError(f"expected a depth of at most its candidates, {then.candidates}, and it is {then.depth}")
        return then

    @field_validator("calibrator")
    @classmethod
    def _check_rivals(cls, calibrator: AnyCalibrator, known: Any) -> AnyCalibrator:
        then = known.data.get("fingerprint")
        if then is not None and then.depth < 2 and not isinstance(getattr(calibrator, "base", calibrator), LogisticCalibrator):
            raise ValueError(f"expected a fingerprint.depth of 2 or above, since {calibrator.kind} compares hits, and it is {then.depth}")
        return calibrator

    @field_validator("verdict")
    @classmethod
    def _check_verdict(cls, verdict: VerdictRecord, known: Any) -> VerdictRecord:
        if "threshold" in known.data and (verdict.label == "usable") != (known.data["threshold"] is not None):
            came = "no threshold" if known.data["threshold"] is None else "a threshold"
            raise ValueError(f'expected the label "usable" with a threshold, the other one without; it is "{verdict.label}" with {came}')
        return verdict

    @field_validator("target", "confidence_level")
    @classmethod
    def _check_aim(cls, value: float, known: Any) -> float:
        threshold = known.data.get("threshold")
        name = "precision_target" if known.field_name == "target" else "confidence"
        if threshold is not None and getattr(threshold, name) != value:
            raise ValueError(f"expected {getattr(threshold, name)} as in threshold.{name}, and {value} came")
        return value

    @property
    def depth_needed(self) -> int:
        """How many hits per query a search has to find, whatever it shows."""
        depth = self.calibrator.depth
        return self.fingerprint.depth if depth is None else min(depth, self.fingerprint.depth)

    @property
    def needs_lengths(self) -> bool:
        """Whether the search has to know token counts of queries and hits."""
        return any("length" in name for name in _read_by(self.calibrator))

    @property
    def needs_temperature(self) -> bool:
        """Whether the training temperature stands behind the probability; it is kept in the calibrator."""
        base = getattr(self.calibrator, "base", self.calibrator)
        return getattr(base, "temperature", None) is not None

    def check(self, now: Fingerprint, *, index: str | None = None, model: str = "", addressed: bool = False) -> None:
        """Refuse a search that is not the one this was fitted on.

        Two corpora are one where their texts or their vectors agree. A search may find more hits than the fit read, never fewer.

        Args:
            now: the model, similarity, kind of search, corpus and depth at hand.
            index: folder of the index at hand, if there is one.
            model: how the model at hand is named; "" where nobody knows, or it is the same.
            addressed: whether the server of the index was reached at an address that its folder does not hold.

        Raises:
            InputError: what differs, both values of it, and the command that fits a calibration for it.
        """
        then = self.fingerprint
        differing = [
            f"{words} is {_named(name, now)}, fitted on {_named(name, then)}"
            for name, words in (("model", "the model"), ("similarity", "the similarity"), ("search", "the kind of search"))
            if getattr(now, name) != getattr(then, name)
        ]
        if (corpus := _corpus_problem(now, then)) is not None:
            differing.append(corpus)
        if now.depth < self.depth_needed:
            differing.append(f"the depth is {now.depth} hits per query, and this one reads {self.depth_needed}")
        if differing:
            way = "Fit one for what is at hand" + (", where a search of the index finds it" if index is not None else "")
            # The command names the data of the last fit, which know nothing of a later change.
            stale = index is not None and corpus is not None
            way += ", once corpus.jsonl and qrels of the data are up to date with the index" if stale else ""
            command = self._remedy(now, index, model, addressed)
            raise InputError(f"this calibration does not hold here: {'; '.join(differing)}. {way}: {command}")

    def apply(self, hits: HitLists) -> Applied:
        """Turn hits into probabilities, and say on which to abstain.

        A first hit abstains where `threshold` asks for more than its probability; a hit after it likewise by its own
        probability, but the precision that the threshold was certified for is that of first hits. A zero vector has probability
        0 and abstains, and so do the hits of a query that is one. Where no threshold exists all abstain.

        Args:
            hits: B queries; at least `depth_needed` hits each, K in all.

        Returns:
            All (B, K) by the places of `hits`.

        Raises:
            InputError: fewer hits than are needed, another similarity, or lengths that are needed and missing.
        """
        if hits.depth < self.depth_needed:
            raise InputError(
                f"{hits.depth} hits per query; this calibration reads {self.depth_needed}: search for as many, and show fewer of them"
            )
        if hits.similarity != self.fingerprint.similarity:
            raise InputError(f"hits are scored by {hits.similarity.value}; this calibration was fitted on {self.fingerprint.similarity}")
        read = hits
        if self.calibrator.depth is None and hits.depth > self.fingerprint.depth:
            # A softmax over more hits than it was fitted on would share the same chance among more of them.
            read = _first_hits(hits, self.fingerprint.depth)
        first, order = self.calibrator.predict(read), self.calibrator.order(read)
        if self.lower_hits is None:
            probabilities = np.full(hits.scores.shape, np.nan)
            probabilities[np.arange(len(hits)), order] = first
        else:
            probabilities = self.lower_hits.predict(hits, first, places=order)
        zero = (hits.query_norms[:, None] == 0.0) | (hits.hit_norms == 0.0)
        probabilities[zero] = 0.0
        return Applied(order, probabilities, zero, self.threshold, self.verdict)

    def _remedy(self, now: Fingerprint, index: str | None, model: str, addressed: bool) -> str:
        then = self.fingerprint
        index = "INDEX" if index is None and now.search != then.search else index
        same = now.model == then.model
        idle = set() if same else {"--temperature", "--signals", "--depth", "--trust-remote-code"}
        idle |= {"--depth"} if now.depth < self.depth_needed else set()
        options = {name: value for name, value in self.options.items() if name not in idle}
        options |= {"--url": ADDRESS} if addressed else {}
        data = self.data_name
        if now.model == "vectors" == then.model:
            # Files have as many rows as the corpus that they were fitted on: for another one they are other files.
            changed = _corpus_problem(now, then) is not None
            source, data = vectors_source("" if changed else self.model_name, now.similarity), "" if changed else data
        elif now.model == "vectors":
            source = vectors_source("", now.similarity)
        else:
            source = model_source(model or (self.model_name if then.model != "vectors" else ""))
        return calibrate_command(source, data=data, index=index, precision=self.target, confidence=self.confidence_level, options=options)


def parse_calibration(text: str | bytes, source: str, *, again: str = "") -> Calibration:
    """Read a calibration, or say in words why it is none.

    Args:
        text: what `Calibration.to_json` wrote.
        source: the file that it came from, for the message.
        again: the command that fits one, where it is known.

    Returns:
        The calibration, equal to what was written, bit by bit.

    Raises:
        InputError: no JSON (cut off, or another file), written by a newer normwise, or a key that no fit could have written: the
            message names it, with what was expected.

    Example:
        >>> parse_calibration("{", "model/calibration.json")  # doctest: +ELLIPSIS
        Traceback (most recent call last):
        ...
        normwise.core.errors.InputError: model/calibration.json is no JSON (line 1, column 2); was it cut off? ...
    """
    # Nothing but a calibration is ever replaced.
    again = f"Move it away and fit it again: {again or 'normwise calibrate'}"
    try:
        text = text if isinstance(text, str) else text.decode("utf-8")
        read = json.loads(text)
    except ValueError as problem:
        place = f"line {problem.lineno}, column {problem.colno}" if isinstance(problem, json.JSONDecodeError) else "a number of many digits"
        place = "not UTF-8" if isinstance(problem, UnicodeDecodeError) else place
        raise InputError(f"{source} is no JSON ({place}); was it cut off? {again}") from None
    if not isinstance(read, dict) or "calibrator" not in read or "format" not in read:
        raise InputError(f"{source} is JSON, but no calibration: it has no format or no calibrator. {again}")
    if isinstance(read["format"], int) and read["format"] > FORMAT:
        raise InputError(
            f"{source} has format {read['format']}, this normwise reads {FORMAT}: a newer one wrote it. "
            "Update it: pip install --upgrade normwise"
        )
    try:
        # Strict: text that looks like a number is none.
        return Calibration.model_validate_json(text, strict=True)
    except ValidationError as refused:
        problem = causes_of(refused.errors())[0]
        raise InputError(f"{source} is not a whole calibration: {refusal_words(problem, read)}. {again}") from None


def _read_by(calibrator: AnyCalibrator) -> tuple[str, ...]:
    """The names of the signals that a calibrator reads beside scores."""
    base = getattr(calibrator, "base", calibrator)
    if isinstance(base, LogisticCalibrator):
        return tuple(column.signal for column in base.columns)
    if isinstance(base, NormTemperatureCalibrator):
        return tuple(base.exponents)
    return (base.prior,) if isinstance(base, RerankingCalibrator | PriorCalibrator) else ()


def _corpus_problem(now: Fingerprint, then: Fingerprint) -> str | None:
    """What is wrong with the corpus; nothing where its texts or its vectors agree."""
    if now.candidates != then.candidates:
        return f"the corpus has {now.candidates:,} candidates, fitted on {then.candidates:,}"
    hashes = {"texts": (now.corpus_texts, then.corpus_texts), "vectors": (now.corpus_vectors, then.corpus_vectors)}
    known = {name: (str(first), str(second)) for name, (first, second) in hashes.items() if first and second}
    if not known:
        return "whether the corpus is the same cannot be told: no hash of its texts or of its vectors is known on both sides"
    if any(first == second for first, second in known.values()):
        return None
    words = (f"its {name} are {_short(first)}, fitted on {_short(second)}" for name, (first, second) in known.items())
    return f"the corpus differs: {'; '.join(words)}"


def _named(name: str, of: Fingerprint) -> str:
    """Words stay whole, hashes do not."""
    return _short(of.model) if name == "model" else str(getattr(of, name))


def _short(value: str) -> str:
    return f"{value[:_SHOWN]}..." if len(value) > 2 * _SHOWN else value


def _first_hits(hits: HitLists, depth: int) -> HitLists:
    parts = ("scores", "hit_norms", "hit_lengths", "hit_frequency", "hit_density")
    return replace(hits, complete=False, **{name: getattr(hits, name)[:, :depth] for name in parts if getattr(hits, name) is not None})
