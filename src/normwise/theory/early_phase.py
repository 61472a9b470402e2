"""The first phase of training from a small init in closed form: how fast order-0 signatures grow into the embedding, and until when.

Both E (V, d) and U (Y, d) are trained, f(X) = U sigma(sum_i e_{x_i}) with sigma(0) = 0, softmax cross-entropy, gradient flow (time = steps
times learning rate of full-batch gradient descent on the mean loss).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.optimize import root_scalar

from normwise.core.errors import InputError
from normwise.core.shapes import Float
from normwise.theory.flow_checks import finite, law_rows
from normwise.theory.quantities import Span, quantities

# exp of more than this is beyond float64.
_MOST_LOG = 700.0
_SUM = 1e-6


@dataclass(frozen=True, eq=False)
class EarlyState:
    """Embedding and unembedding at one time of the early phase, kept over e^{log_scale} so that no time is too late for float64.

    Args:
        time: t.
        log_scale: t sigma_1, by which the fastest direction has grown.
        scaled_embedding: (V, d) e^{-log_scale} E(t); its cosines and Gram shape are those of E(t).
        scaled_unembedding: (Y, d) e^{-log_scale} U(t).
    """

    time: float
    log_scale: float
    scaled_embedding: np.ndarray
    scaled_unembedding: np.ndarray

    @property
    def embedding(self) -> Float[np.ndarray, "V d"]:
        """(V, d) E(t); InputError where its scale is beyond float64."""
        return self._scale * self.scaled_embedding

    @property
    def unembedding(self) -> Float[np.ndarray, "Y d"]:
        """(Y, d) U(t); InputError where its scale is beyond float64."""
        return self._scale * self.scaled_unembedding

    @property
    def _scale(self) -> float:
        if self.log_scale > _MOST_LOG:
            raise InputError(
                f"at time {self.time:g} the early phase has grown by e^{self.log_scale:.0f}; expected at most e^{_MOST_LOG:.0f}: "
                "take scaled_embedding, or a time before EarlyPhase.ends"
            )
        return math.exp(self.log_scale)


@dataclass(frozen=True, eq=False)
class EarlyPhase:
    """The linear flow of embedding and unembedding while the logits are far below 1.

    Equation: dE/dt = A U, dU/dt = A^T E, A = c diag(L r) (Phi_0 - 1/Y), hence

        E(t) = cosh(t (A A^T)^{1/2}) E_0 + (A A^T)^{-1/2} sinh(t (A A^T)^{1/2}) A U_0

    The early Gram E E^T is therefore made of A A^T, the Gram of order-0 signatures, centred at 1/Y and weighted by frequency.
    It holds to first order in the logits: with sigma(z) = z the relative error of E(t) is .13 to .25 of the largest logit in addition
    and modular addition (2e-3 at about .01), so it ends when that is no longer far below 1 (`ends`). A nonlinear sigma must also be
    straight at the size of z: ReLU is not at any size, and grows faster than c = 1/2 says, because embeddings that turn one way leave
    its active half, of slope 1. C_0 = sigma(0) other than 0 would drive U by itself.

    Args:
        order_zero: (V, Y) Phi_0, rows P(y | a) of sum 1, or 0 for a token never seen.
        frequency: (V,) r_a = P(x_I = a), of sum 1, or below it where tokens are left out.
        length: L >= 1, tokens of a sequence.
        slope: c = sigma'(0), of any sign.

    Raises:
        InputError: shapes that do not fit, or values outside their range.

    Reference: ours, for the network of Yao, Hang, Xu (2026), arXiv 2608.30315.

    Example:
        >>> phase = EarlyPhase(np.eye(2), np.full(2, 0.5), length=1)
        >>> phase.drive.tolist(), round(phase.growth_rate, 6)
        ([[0.25, -0.25], [-0.25, 0.25]], 0.5)
    """

    order_zero: np.ndarray
    frequency: np.ndarray
    length: int
    slope: float = 1.0

    def __post_init__(self) -> None:
        for name, axes in (("order_zero", "(V, Y)"), ("frequency", "(V,)")):
            object.__setattr__(self, name, finite(name, getattr(self, name), axes))
        quantities(length=(self.length, Span.COUNT), slope=(self.slope, Span.FINITE))
        rates = self.frequency
        if len(rates) != len(self.order_zero) or (rates < 0.0).any() or rates.sum() > 1.0 + _SUM:
            raise InputError(
                f"frequency has shape {rates.shape}, least value {rates.min():g} and sum {rates.sum():.9g}; "
                f"expected ({len(self.order_zero)},), values >= 0 of sum 1 at most"
            )
        law_rows("order_zero", self.order_zero, shape=self.order_zero.shape, rates=rates)

    @cached_property
    def drive(self) -> Float[np.ndarray, "V Y"]:
        """(V, Y) A = c diag(L r) (Phi_0 - 1/Y)."""
        return self.slope * self.length * self.frequency[:, None] * (self.order_zero - 1.0 / self.order_zero.shape[1])

    @cached_property
    def _parts(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        left, sizes, right = np.linalg.svd(self.drive, full_matrices=False)
        return left, sizes, right.T

    @property
    def growth_rates(self) -> Float[np.ndarray, " R"]:
        """Singular values of A, from the largest on: the rates of the directions, per unit of time."""
        return self._parts[1]

    @property
    def growth_rate(self) -> float:
        """sigma_1(A), the rate of the fastest direction."""
        return float(self._parts[1][0])

    @property
    def rows_equal(self) -> bool:
        """Whether all tokens that occur have one label law: order 0 then moves them all one way and tells none from another."""
        seen = self.order_zero[self.frequency > 0.0]
        return not len(seen) or bool(np.ptp(seen, axis=0).max() <= _SUM)

    def at(self, time: float, embedding: np.ndarray, unembedding: np.ndarray) -> EarlyState:
        """Return E(t) and U(t).

        Args:
            time: t >= 0.
            embedding: (V, d) E_0.
            unembedding: (Y, d) U_0.

        Raises:
            InputError: a time below 0, or shapes that do not fit.

        Example:
            >>> phase = EarlyPhase(np.eye(2), np.full(2, 0.5), length=1)
            >>> start = np.array([[1.0], [-1.0]])
            >>> state = phase.at(2.0, start, start)  # grows by e^{t / 2}
            >>> (state.embedding / np.e).round(9).tolist()
            [[1.0], [-1.0]]
        """
        quantities(time=(time, Span.NONNEGATIVE))
        first, second = self._read_start(embedding, unembedding)
        left, sizes, right = self._parts
        log_scale = float(time * sizes[0])
        # cosh(x) - 1 and sinh(x) over e^{log_scale}: the first without cancellation at small x, neither too large at a late time.
        steps = time * sizes
        grown = np.exp(steps - log_scale)[:, None]
        cosh, sinh = 0.5 * grown * np.expm1(-steps)[:, None] ** 2, -0.5 * grown * np.expm1(-2.0 * steps)[:, None]
        along, across = left.T @ first, right.T @ second
        kept = math.exp(-log_scale)
        return EarlyState(
            time=float(time),
            log_scale=log_scale,
            scaled_embedding=kept * first + left @ (cosh * along + sinh * across),
            scaled_unembedding=kept * second + right @ (cosh * across + sinh * along),
        )

    def log_logit(self, state: EarlyState) -> float:
        """Return the log of c L max_{a seen, v} |<e_a, u_v>|, which no logit exceeds to first order, at a state of this phase."""
        scores = state.scaled_embedding[self.frequency > 0.0] @ state.scaled_unembedding.T
        largest = abs(self.slope) * self.length * np.abs(scores).max(initial=0.0)
        return (math.log(largest) if largest > 0.0 else -math.inf) + 2.0 * state.log_scale

    def ends(self, embedding: np.ndarray, unembedding: np.ndarray, *, logit: float = 0.005) -> float:
        """Return the time at which the largest logit that this phase predicts reaches a limit: beyond it, `at` is an extrapolation.

        Args:
            embedding: (V, d) E_0.
            unembedding: (Y, d) U_0.
            logit: the limit, > 0; the relative error of E(t) there is about a fifth of it for sigma(z) = z.

        Returns:
            The time; 0 where the init is beyond the limit, infinity where nothing grows.

        Raises:
            InputError: a limit that is not above 0, or shapes that do not fit.

        Example:
            >>> phase = EarlyPhase(np.eye(2), np.full(2, 0.5), length=1)
            >>> start = np.array([[0.1], [-0.1]])
            >>> round(phase.ends(start, start, logit=1.0), 6) == round(float(np.log(100.0)), 6)  # .01 e^t = 1
            True
        """
        quantities(logit=(logit, Span.POSITIVE))
        self._read_start(embedding, unembedding)

        def excess(time: float) -> float:
            return max(self.log_logit(self.at(time, embedding, unembedding)), -1e6) - math.log(logit)

        if excess(0.0) >= 0.0:
            return 0.0
        if self.growth_rate == 0.0:
            return math.inf
        step, low = 1.0 / self.growth_rate, 0.0
        while excess(low + step) < 0.0:
            low += step
            # By then the fastest direction has grown by e^700: the init has no part in it.
            if low > _MOST_LOG * step:
                return math.inf
        return float(root_scalar(excess, bracket=(low, low + step), method="brentq", xtol=1e-10 * step).root)

    def _read_start(self, embedding: np.ndarray, unembedding: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        first, second = finite("embedding", embedding, "(V, d)"), finite("unembedding", unembedding, "(Y, d)")
        tokens, labels = self.order_zero.shape
        if (len(first), len(second)) != (tokens, labels) or first.shape[1] != second.shape[1]:
            raise InputError(
                f"embedding has shape {first.shape} and unembedding {second.shape}; expected ({tokens}, d) and ({labels}, d), one d"
            )
        return first, second
