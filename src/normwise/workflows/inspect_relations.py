"""How the norm goes with each factor, on as many rows as its factors allow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from normwise.core.norm_records import FactorAssociation
from normwise.theory.association import associations, corrected
from normwise.theory.norm_findings import excluded, strength
from normwise.workflows.inspect_factors import FactorTable


@dataclass(frozen=True)
class Relations:
    """The factors' records, how many rows are behind the most complete of them, and what has to be said of that."""

    factors: tuple[FactorAssociation, ...]
    rows: int
    notes: tuple[str, ...]


def relate(norms: np.ndarray, table: FactorTable, *, vary: bool, seed: int) -> Relations:
    """Correlate the norm with every factor of a table.

    A factor that some rows lack, as WordNet lacks words, costs the others these rows if it is to be held. So all are
    first correlated on the rows that have everything. Where those factors are excluded there, nothing has to be held, and
    the others are correlated once more, on all of their rows; p-values are corrected over all factors together.

    Args:
        norms: (N,) of all rows.
        table: the factors and their rows.
        vary: whether norms differ by more than rounding; if not, nothing is correlated.
        seed: of samples and of the bootstrap.
    """
    narrow = _associations(norms, table, vary=vary, seed=seed)
    wide = table.wide
    if wide is None:
        return Relations(narrow, table.rows.size, ())
    costly = [record for record in narrow if record.name not in wide.values]
    some = f"only {table.rows.size:,} rows have {_names(costly)} too"
    if not excluded(costly) or any(strength(record) > 0.0 for record in costly):
        may = ", with which the norm goes there, or may" if vary else ""
        return Relations(
            narrow, table.rows.size, (f"{some}{may}: all rest on these rows, and not on {wide.rows.size:,}, so that all can be held fixed",)
        )
    more = {record.name: record for record in _associations(norms, wide, vary=vary, seed=seed)}
    every = corrected([more.get(record.name, record) for record in narrow])
    return Relations(every, wide.rows.size, (f"{some}, with which the norm does not go there: the others rest on {wide.rows.size:,} rows",))


def _associations(norms: np.ndarray, table: FactorTable, *, vary: bool, seed: int) -> tuple[FactorAssociation, ...]:
    logs = np.log(norms[table.rows])
    # Equal norms differ by rounding, which is nothing to correlate.
    return associations(logs if vary else np.zeros_like(logs), table.values, seed=seed)


def _names(factors: Sequence[FactorAssociation]) -> str:
    return ", ".join(factor.name for factor in factors)
