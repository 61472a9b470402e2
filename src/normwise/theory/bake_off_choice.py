"""Who may be chosen in a bake-off, and which of those is: bars and the rule of one standard error, on held-out answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from normwise.core.shapes import Float, Int
from normwise.theory.bake_off_entrants import Entrant
from normwise.theory.bake_off_training import clipped_log_losses
from normwise.theory.bootstrap import cluster_mean_interval, excludes_zero
from normwise.theory.claims import span
from normwise.theory.hit_lists import JudgedHits
from normwise.theory.standard_error import standard_error


@dataclass(frozen=True)
class HeldOut:
    """What one entrant said of queries that it did not see, and whether the hit it put first is relevant: all (B,)."""

    entrant: Entrant
    confidence: np.ndarray
    order: np.ndarray
    right: np.ndarray

    @property
    def losses(self) -> np.ndarray:
        """(B,) its clipped negative log likelihoods."""
        return clipped_log_losses(self.confidence, self.right)

    @property
    def open(self) -> bool:
        """Whether nothing but its figures stands against it."""
        return not self.entrant.barred and self.entrant.reranks_by is None


def choose(
    losses: Mapping[str, Float[np.ndarray, " B"]], parameters: Mapping[str, int], clusters: Int[np.ndarray, " B"]
) -> tuple[str, str]:
    """Return the simplest of the calibrators within one standard error of the best, and the best.

    Args:
        losses: (B,) held-out losses of each on the same queries, in order of simplicity among equals.
        parameters: how many free numbers each has.
        clusters: (B,) the cluster of each query.

    Returns:
        Two names; the same if nothing simpler is as good.

    Example:
        >>> choose({"plain": np.array([1.0, 0.0, 1.0]), "rich": np.array([0.0, 1.0, 0.9])}, {"plain": 1, "rich": 9}, np.arange(3))
        ('plain', 'rich')
    """
    best = min(losses, key=lambda name: float(losses[name].mean()))
    near = [name for name in losses if name == best or _within(losses[name] - losses[best], clusters)]
    return min(near, key=lambda name: parameters[name]), best


def barred(run: HeldOut, runs: Mapping[str, HeldOut], judged: JudgedHits, *, seed: int) -> str:
    """Say why this one may not be chosen; nothing if it may.

    Args:
        run: the one.
        runs: all, by name; the control of a re-ranking is among them where lengths are known.
        judged: the queries they were judged on.
        seed: of the bootstrap.
    """
    if run.entrant.barred or run.entrant.reranks_by is None:
        return run.entrant.barred
    plain = judged.right.astype(np.float64)
    against = [("the plain ranking", plain)]
    control = runs.get(run.entrant.name.replace("norm", "length", 1))
    if control is None:
        return "lengths of candidates are not known, so a re-ranking by the norm cannot be told from one by length"
    against.append(("the same re-ranking by length", control.right.astype(np.float64)))
    for name, other in against:
        difference = run.right - other
        # Equal hits need no bootstrap to say so.
        if not difference.any():
            return f"it does not beat {name}: its first hits are right equally often, query by query"
        found = cluster_mean_interval(difference, judged.clusters, seed=seed)
        if not excludes_zero(found) or float(difference.mean()) <= 0.0:
            return f"it does not beat {name}: the share of right first hits moves by {span(found)}"
    return ""


def _within(difference: np.ndarray, clusters: np.ndarray) -> bool:
    error = standard_error(difference, clusters)
    return error is not None and float(difference.mean()) <= error
