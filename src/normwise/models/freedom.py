"""Can this encoder's norm move at all? The closed forms that tie it to the direction, found and checked.

Reference: the double-ellipsoid picture of Levi & Gilboa (arXiv 2411.14517); the hyperplane identity for mean pooling
after a LayerNorm with bias is our own derivation.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.modules import Dense, Dropout, Pooling
from torch import nn

from normwise.core.records import GateReport
from normwise.models.probe import PROBE_TEXTS, probe_vectors
from normwise.models.structure import backbone, ends_in_normalize

# Poolings whose weights sum to one keep a hyperplane; those that pick one token keep the ellipsoid as well.
_AVERAGES = {"mean", "cls", "lasttoken", "weightedmean"}
_SINGLE = {"cls", "lasttoken"}
_HOLDS, _FITS = 1e-3, 1e-2

Kind = Literal["plane-bound", "ellipsoid-bound", "unit", "free"]


@dataclass(frozen=True)
class TerminalNorm:
    """The norm layer whose output is the encoder's token states: z = gain * n + bias.

    `centered` says that n has mean 0 (LayerNorm); else n has mean square 1 only (RMSNorm). LayerNorm has both.
    """

    name: str
    centered: bool
    gain: np.ndarray
    bias: np.ndarray


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


def norm_freedom(st: SentenceTransformer, *, texts: Sequence[str] = PROBE_TEXTS) -> GateReport:
    """Tell whether the norm of an encoder can move apart from its direction, from its structure and on texts.

    With token states z = g n + b behind the last norm layer (n of mean 0, mean square 1 in a LayerNorm, of mean square 1
    in an RMSNorm) and averages over tokens as pooling:

        LayerNorm with bias:             sum_i z_i / g_i = sum_i b_i / g_i,  so  r = sum_i(b_i/g_i) / sum_i(hat z_i / g_i)
        one token of an RMSNorm:         sum_i z_i^2 / g_i^2 = D,            so  r = sqrt(D) / ||hat z / g||

    A Dense map keeps the first if the normal lies in its row space, the second if it is injective; else the norm is free.
    Predicted norms are then compared with those of `texts`: a form that does not hold there is not reported as binding.

    Args:
        st: the encoder.
        texts: what to check on, at least two different ones.

    Returns:
        The gate `norm_freedom`: passed when no closed form binds the norm. Figures: radial_freedom = 1 - R2 of the
        predicted log norm (None without a closed form), closed_form_error (largest relative), norm_mean, norm_cv,
        constant, gain_ratio (smallest over largest gain of the norm layer: below about 1e-3, storing unit vectors in half
        precision loses the coordinates that the form needs), texts.
    """
    vectors = probe_vectors(st, texts).astype(np.float64)
    norms = np.linalg.norm(vectors, axis=1)
    terminal = terminal_norm(st, texts[: min(4, len(texts))])
    kind, constraint, why = ending(st, terminal)
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
    present = norms > 0
    predicted = constraint.norms(vectors[present] / norms[present, None])
    error = float(np.max(np.abs(predicted / norms[present] - 1.0)))
    figures["closed_form_error"] = error
    if not error <= _HOLDS:
        words = f"free: {why}, but that form misses norms by up to {error:.2g} of their size, so it does not bind"
        return GateReport(name="norm_freedom", passed=True, words=words, figures=figures)
    spread = float(np.var(np.log(norms[present])))
    figures["radial_freedom"] = float(np.mean((np.log(predicted) - np.log(norms[present])) ** 2)) / spread if spread > 0 else 0.0
    words = (
        f"{kind}: {why}. The norm is a function of the direction (largest relative error on {len(texts)} texts {error:.1g}), so "
        "training cannot move it alone. It may still be informative, and unit vectors in full precision contain it. A radial head "
        "(a Dense projection to fewer dimensions) frees it; one of full rank does not"
    )
    return GateReport(name="norm_freedom", passed=False, words=words, figures=figures)


def _gain_ratio(gain: np.ndarray) -> float:
    sizes = np.abs(gain)
    return float(sizes.min() / sizes.max()) if sizes.max() > 0 else 0.0


def terminal_norm(st: SentenceTransformer, texts: Sequence[str]) -> TerminalNorm | None:
    """Find the norm layer whose output is the token states, by running the encoder, and read z = gain * n + bias off it.

    Returns:
        None when the token states are not a norm layer's output.
    """
    model = backbone(st)
    if model is None:
        return None
    seen: dict[str, tuple[torch.Tensor, torch.Tensor]] = {}

    def keep(name: str) -> Callable[..., None]:
        def hook(module: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
            if inputs and isinstance(output, torch.Tensor):
                seen[name] = (inputs[0].detach(), output.detach())

        return hook

    handles = [module.register_forward_hook(keep(name)) for name, module in model.named_modules() if _is_norm(module)]
    was_training = st.training
    st.eval()
    try:
        features = st.preprocess(list(texts))
        features = {key: value.to(st.device) if isinstance(value, torch.Tensor) else value for key, value in features.items()}
        with torch.no_grad():
            states = st[0](features).get("token_embeddings")
    finally:
        st.train(was_training)
        for handle in handles:
            handle.remove()
    for name, (given, output) in seen.items():
        if states is not None and output.shape == states.shape and torch.equal(output, states):
            return _read_norm(name, model.get_submodule(name), given, output)
    return None


def _is_norm(module: nn.Module) -> bool:
    return "norm" in type(module).__name__.lower() and not list(module.children())


def _read_norm(name: str, module: Any, given: torch.Tensor, output: torch.Tensor) -> TerminalNorm | None:
    x, z = given.double().cpu().reshape(-1, given.shape[-1]).numpy(), output.double().cpu().reshape(-1, output.shape[-1]).numpy()
    width = x.shape[1]
    eps = float(next((getattr(module, key) for key in ("eps", "variance_epsilon") if hasattr(module, key)), 0.0) or 0.0)
    weight, bias = _vector(module, "weight", width, 1.0), _vector(module, "bias", width, 0.0)
    shifted = x - x.mean(axis=1, keepdims=True)
    candidates = []
    for centered, base in ((True, shifted), (False, x)):
        normed = base / np.sqrt((base**2).mean(axis=1, keepdims=True) + eps)
        # Gemma and its kin store the gain as an offset from one.
        for gain in (weight, 1.0 + weight):
            error = float(np.max(np.abs(gain * normed + bias - z)) / max(float(np.max(np.abs(z))), 1e-30))
            candidates.append((error, centered, gain))
    error, centered, gain = min(candidates, key=lambda candidate: candidate[0])
    return TerminalNorm(name=name, centered=centered, gain=gain, bias=bias) if error < _FITS else None


def _vector(module: Any, name: str, width: int, default: float) -> np.ndarray:
    value = getattr(module, name, None)
    return np.full(width, default) if value is None else value.detach().double().cpu().numpy()


def ending(st: SentenceTransformer, terminal: TerminalNorm | None) -> tuple[Kind, Constraint | None, str]:
    """What the modules behind the last norm layer leave of the norm's freedom: its kind, the equation if there is one, and why."""
    modules = list(st.children())
    if ends_in_normalize(st):
        return "unit", None, "the model ends in a Normalize module, which makes every norm 1"
    if terminal is None:
        return "free", None, "the token states are not the output of a norm layer"
    pooling = next((module for module in modules if isinstance(module, Pooling)), None)
    layer = "LayerNorm" if terminal.centered else "RMSNorm"
    if pooling is None or not isinstance(pooling.pooling_mode, str) or pooling.pooling_mode not in _AVERAGES:
        return "free", None, f"the {layer} at the end is followed by a pooling that is no average"
    constraint = _after_pooling(terminal, pooling.pooling_mode)
    why = f"the encoder ends in a {layer} and {pooling.pooling_mode} pooling"
    for module in modules[modules.index(pooling) + 1 :]:
        if isinstance(module, Dropout):
            continue
        before, constraint = constraint, None if constraint is None else _after_module(constraint, module)
        if before is not None:
            why += f", then a {type(module).__name__} that {'keeps' if constraint is not None else 'breaks'} the tie"
    if constraint is None or st.truncate_dim is not None:
        return "free", None, why + ("" if st.truncate_dim is None else f", cut to {st.truncate_dim} dimensions")
    if constraint.kind == "plane-bound":
        return constraint.kind, constraint, f"{why}: all vectors lie in one hyperplane"
    return constraint.kind, constraint, f"{why}: all vectors lie on one ellipsoid"


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
    """What is left of an equation on z for y = W z + a; None when y is free of it."""
    if not isinstance(module, Dense) or not isinstance(module.activation_function, nn.Identity) or module.use_residual:
        return None
    weight = module.linear.weight.detach().double().cpu().numpy()
    offset = np.zeros(len(weight)) if module.linear.bias is None else module.linear.bias.detach().double().cpu().numpy()
    if constraint.kind == "plane-bound":
        normal = np.linalg.lstsq(weight.T, constraint.form, rcond=None)[0]
        if np.linalg.norm(weight.T @ normal - constraint.form) > 1e-6 * np.linalg.norm(constraint.form):
            return None
        return Constraint("plane-bound", normal, constraint.constant + float(normal @ offset))
    if np.linalg.matrix_rank(weight) < weight.shape[1] or np.any(offset != 0):
        return None
    return Constraint("ellipsoid-bound", constraint.form @ np.linalg.pinv(weight), constraint.constant)
