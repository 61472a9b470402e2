"""Can this encoder's norm move at all? The closed forms that tie it to the direction, found and checked.

Reference: the double-ellipsoid picture of Levi & Gilboa (arXiv 2411.14517); the hyperplane identity for mean pooling
after a LayerNorm with bias is our own derivation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Pooling
from torch import nn

from normwise.core.records import GateReport
from normwise.models.inputs import as_contents
from normwise.models.probe import PROBE_TEXTS, probe_vectors
from normwise.models.structure import ends_in_normalize, path_of
from normwise.models.terminal import Affine, TerminalNorm, affine, asked_modality
from normwise.models.terminal import terminal_norm as terminal_norm

# Poolings whose weights sum to one keep a hyperplane; those that pick one token keep the ellipsoid as well.
_AVERAGES = {"mean", "cls", "lasttoken", "weightedmean"}
_SINGLE = {"cls", "lasttoken"}
_HOLDS = 1e-3

Kind = Literal["plane-bound", "ellipsoid-bound", "unit", "free"]


@dataclass(frozen=True)
class Constraint:
    """An equation that every vector of the encoder meets.

    `plane-bound`: normal . z = constant.  `ellipsoid-bound`: ||unmix z|| = constant, with unmix of shape (D0, D).
    """

    kind: Literal["plane-bound", "ellipsoid-bound"]
    form: np.ndarray
    constant: float

    def norms(self, directions: np.ndarray) -> np.ndarray:
        """The norm that the equation gives to each unit vector, (n, D) -> (n,)."""
        with np.errstate(divide="ignore", invalid="ignore"):
            if self.kind == "plane-bound":
                return self.constant / (directions @ self.form)
            return self.constant / np.linalg.norm(directions @ self.form.T, axis=1)


def norm_freedom(st: SentenceTransformer, *, texts: Sequence[Any] = PROBE_TEXTS) -> GateReport:
    """Tell whether the norm of an encoder can move apart from its direction, from its structure and on texts.

    With token states z = g n + b behind the last norm layer (n of mean 0, mean square 1 in a LayerNorm, of mean square 1
    in an RMSNorm) and averages over tokens as pooling:

        LayerNorm with bias:             sum_i z_i / g_i = sum_i b_i / g_i,  so  r = sum_i(b_i/g_i) / sum_i(hat z_i / g_i)
        one token of an RMSNorm:         sum_i z_i^2 / g_i^2 = D,            so  r = sqrt(D) / ||hat z / g||

    A tower that takes one token and projects it (CLIP) is read in the same way. A linear map keeps the first if the normal
    lies in its row space, the second if it is injective; else the norm is free. Predicted norms are then compared with those
    of `texts`: a form that does not hold there is not reported as binding.

    Args:
        st: the encoder.
        texts: what to check on, at least two different ones; or images, for a model that reads them.

    Returns:
        The gate `norm_freedom`: passed when no closed form binds the norm. An encoder in half precision whose rounding
        hides the form is checked in float32. Figures: radial_freedom = 1 - R2 of the predicted log norm (None without a
        closed form), closed_form_error (largest relative, in the encoder's own precision), norm_mean, norm_cv, constant,
        gain_ratio (smallest over largest gain of the norm layer: below about 1e-3, storing unit vectors in half precision
        loses the coordinates that the form needs), texts.
    """
    vectors = probe_vectors(st, texts).astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    terminal = terminal_norm(st, texts[: min(4, len(texts))])
    kind, constraint, why = ending(st, terminal, modality=asked_modality(as_contents(list(texts), what="probe")))
    figures: dict[str, float | None] = {
        "radial_freedom": None,
        "closed_form_error": None,
        "constant": None if constraint is None else constraint.constant,
        "gain_ratio": None if terminal is None else _gain_ratio(terminal.gain),
        "norm_mean": float(norms.mean()),
        "norm_cv": float(norms.std() / norms.mean()) if norms.mean() > 0 else None,
        "texts": float(len(texts)),
    }
    if kind == "unit":
        figures["radial_freedom"] = 0.0
        return GateReport(name="norm_freedom", passed=False, words=f"unit: {why}; there is no norm to read or to train", figures=figures)
    if constraint is None:
        return GateReport(
            name="norm_freedom", passed=True, words=f"free: {why}; no closed form ties the norm to the direction", figures=figures
        )
    error, freedom = _against(constraint, vectors)
    figures |= {"closed_form_error": error, "radial_freedom": freedom}
    exact, aside = error, ""
    if not error <= _HOLDS and (half := _half_type(st)) is not None:
        with _in_float32(st):
            exact, figures["radial_freedom"] = _against(constraint, probe_vectors(st, texts).astype(np.float64))
        aside = f" in float32; as it was loaded, {half} rounds its vectors off it by up to {error:.1g}"
    if not exact <= _HOLDS:
        figures["radial_freedom"] = None
        words = f"free: {why}, but that form misses norms by up to {exact:.2g} of their size, so it does not bind"
        return GateReport(name="norm_freedom", passed=True, words=words, figures=figures)
    words = (
        f"{kind}: {why}. The norm is a function of the direction (largest relative error on {len(texts)} texts {exact:.1g}{aside}), so "
        "training cannot move it alone. It may still be informative, and unit vectors in full precision contain it. A radial head "
        "(a Dense projection to fewer dimensions) frees it; one of full rank does not"
    )
    return GateReport(name="norm_freedom", passed=False, words=words, figures=figures)


def _against(constraint: Constraint, vectors: np.ndarray) -> tuple[float, float]:
    """The largest relative error of the norms that an equation predicts, and 1 - R2 of their logarithms."""
    norms = np.linalg.norm(vectors, axis=1)
    vectors, norms = vectors[norms > 0], norms[norms > 0]
    predicted = constraint.norms(vectors / norms[:, None])
    error = float(np.max(np.abs(predicted / norms - 1.0)))
    spread = float(np.var(np.log(norms)))
    with np.errstate(invalid="ignore", divide="ignore"):
        missed = float(np.mean((np.log(predicted) - np.log(norms)) ** 2))
    return error, missed / spread if spread > 0 else 0.0


def _half_type(st: SentenceTransformer) -> str | None:
    """The name of a type below float32 that some weights have; None when all are at least float32."""
    kinds = {parameter.dtype for parameter in st.parameters() if parameter.is_floating_point() and parameter.element_size() < 4}
    return str(min(kinds, key=str)).removeprefix("torch.") if kinds else None


@contextmanager
def _in_float32(st: SentenceTransformer) -> Iterator[None]:
    """Run in float32 for a while; the weights are exactly as before afterwards."""
    tensors = [*st.parameters(), *st.buffers()]
    kinds = [tensor.dtype for tensor in tensors]
    st.float()
    try:
        yield
    finally:
        for tensor, kind in zip(tensors, kinds, strict=True):
            tensor.data = tensor.data.to(kind)


def _gain_ratio(gain: np.ndarray) -> float:
    sizes = np.abs(gain)
    return float(sizes.min() / sizes.max()) if sizes.max() > 0 else 0.0


def ending(
    st: SentenceTransformer, terminal: TerminalNorm | None, *, modality: Literal["text", "image"] = "text"
) -> tuple[Kind, Constraint | None, str]:
    """What the modules behind the last norm layer leave of the norm's freedom: its kind, the equation if there is one, and why."""
    modules = path_of(st, modality)
    if ends_in_normalize(st):
        return "unit", None, "the model ends in a Normalize module, which makes every norm 1"
    if terminal is None:
        return "free", None, "what the encoder pools is not the output of a norm layer"
    layer = "LayerNorm" if terminal.centered else "RMSNorm"
    if terminal.single:
        constraint, why, rest = _after_pooling(terminal, "cls"), f"the encoder ends in one token of a {layer}", modules[1:]
        if terminal.projection is not None:
            before, constraint = constraint, None if constraint is None else _after_map(constraint, terminal.projection)
            why += _then("projection", before, constraint)
    else:
        pooling = next((module for module in modules if isinstance(module, Pooling)), None)
        if pooling is None or not isinstance(pooling.pooling_mode, str) or pooling.pooling_mode not in _AVERAGES:
            return "free", None, f"the {layer} at the end is followed by a pooling that is no average"
        constraint, rest = _after_pooling(terminal, pooling.pooling_mode), modules[modules.index(pooling) + 1 :]
        why = f"the encoder ends in a {layer} and {pooling.pooling_mode} pooling"
    for module in rest:
        if isinstance(module, Dropout):
            continue
        before, constraint = constraint, None if constraint is None else _after_module(constraint, module)
        why += _then(type(module).__name__, before, constraint)
    if constraint is None or st.truncate_dim is not None:
        return "free", None, why + ("" if st.truncate_dim is None else f", cut to {st.truncate_dim} dimensions")
    if constraint.kind == "plane-bound":
        return constraint.kind, constraint, f"{why}: all vectors lie in one hyperplane"
    return constraint.kind, constraint, f"{why}: all vectors lie on one ellipsoid"


def _then(name: str, before: Constraint | None, after: Constraint | None) -> str:
    return "" if before is None else f", then a {name} that {'keeps' if after is not None else 'breaks'} the tie"


def _after_pooling(terminal: TerminalNorm, mode: str) -> Constraint | None:
    gain, bias = terminal.gain, terminal.bias
    # Only an exact 0 is left out: trained gains go down to 1e-33 (all-MiniLM), and their terms b_i / g_i are not small.
    if np.any(gain == 0):
        # A coordinate of gain 0 is the constant b_i by itself; without a bias it says nothing.
        fixed = int(np.argmax(np.where(gain == 0, np.abs(bias), -1.0)))
        return Constraint("plane-bound", np.eye(len(gain))[fixed], float(bias[fixed])) if bias[fixed] != 0 else None
    if terminal.centered and np.any(bias != 0):
        return Constraint("plane-bound", 1.0 / gain, float(np.sum(bias / gain)))
    if mode in _SINGLE and not np.any(bias != 0):
        return Constraint("ellipsoid-bound", np.diag(1.0 / gain), float(np.sqrt(len(gain))))
    return None


def _after_module(constraint: Constraint, module: nn.Module) -> Constraint | None:
    """What is left of an equation on z behind a module; None when nothing is."""
    if not isinstance(module, Dense) or not isinstance(module.activation_function, nn.Identity) or module.use_residual:
        return None
    return _after_map(constraint, affine(module.linear))


def _after_map(constraint: Constraint, linear: Affine) -> Constraint | None:
    """What is left of an equation on z for y = W z + a; None when y is free of it."""
    weight, offset = linear.weight, linear.offset
    if constraint.kind == "plane-bound":
        normal = np.linalg.lstsq(weight.T, constraint.form, rcond=None)[0]
        if np.linalg.norm(weight.T @ normal - constraint.form) > 1e-6 * np.linalg.norm(constraint.form):
            return None
        return Constraint("plane-bound", normal, constraint.constant + float(normal @ offset))
    if np.linalg.matrix_rank(weight) < weight.shape[1] or np.any(offset != 0):
        return None
    return Constraint("ellipsoid-bound", constraint.form @ np.linalg.pinv(weight), constraint.constant)
