"""Claim: no bound on InfoNCE in `normwise.theory` is violated in 100,000 random instances; how close each of them was reached.

Half of the instances are finite spaces, where H, the risks and H_k are enumerated exactly: the bounds of k negatives. The other half
are tuples embedded twice: the bounds of what a move changes. Half of those are unit vectors, half are vectors of any length up to a
largest. Nothing is fitted, and no instance is left out.

Run: python benchmarks/infonce_bounds.py [--spaces 50000] [--moves 50000] [--seed 0] [--out FOLDER] [--page]; --page only writes the page
again. A run of another size or seed does not touch the committed page: it writes to --out, or only prints what it found.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from pathlib import Path

import numpy as np

from normwise.core.files import read_json, write_json, write_text
from normwise.theory.finite_space import FiniteSpace
from normwise.theory.infonce_bounds import gap_bounds, search_gap_bound, weighted_spread
from normwise.theory.infonce_continuity import EmbeddedTuple, continuity_bound

ROOT = Path(__file__).parents[1]
RESULTS, PAGE = ROOT / "benchmarks" / "results" / "infonce_bounds.json", ROOT / "docs" / "infonce_bounds.md"
SIZES = {"spaces": 50_000, "moves": 50_000, "seed": 0}
MOST_NEGATIVES, SCORES = 32, (0.05, 100.0)
BANDS = ((0.0, 1.0), (1.0, 5.0), (5.0, 20.0), (20.0, np.inf))
RELATIVE, ABSOLUTE = 1e-9, 1e-11
# A bound this near to rounding is checked, but its ratio would be one of rounding errors.
CLEAR = 1e4

GAP_BOUNDS = {
    "lower": ("R_k - H", "log(1 + e^{2c}/k)", "Whiteley, proposition 1"),
    "jensen": ("Rt_k - H", "0", "Whiteley, equation 11"),
    "published": ("H - Rt_k", "(e^{2c} - 1)^2 / (8k)", "Whiteley, equation 11"),
    "published_coupled": ("H - R_k", "(e^{2c} - 1)^2 / (8k)", "Whiteley, proposition 1"),
    "scores": ("H - Rt_k", "2c", "Whiteley, lemma 4"),
    "uniform": ("H - Rt_k", "(e^c - 1)^2 / (2k)", "ours"),
    "instance": ("H - Rt_k", "E[cv2 mu / m] / (2k)", "ours"),
    "least": ("H - Rt_k", "the least of these", ""),
    "search": ("|H_k - R_k|", "min(4c E[(dM/dpi)^2] / k, 2c) + log(1 + e^{2c}/k)", "Whiteley, proposition 2; 2c ours"),
    "search_decoupled": ("|H_k - Rt_k|", "min(4c E[(dM/dpi)^2] / k, 2c)", "Whiteley, equation 12; 2c ours"),
}
MOVE_BOUNDS = {
    "published": ("change of l", "(4, 1, 3), spread 2c", "Whiteley, proposition 4"),
    "uniform": ("change of l", "(2, 1, 1), spread 2c", "ours"),
    "bound": ("change of l", "(2, 1, 1), residual and spread on the way", "ours"),
}


def log_uniform(rng, low, high):
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def drawn_space(rng) -> tuple[FiniteSpace, int, float]:
    """2..4 points, k of 1..32 and c of .05..100 log-uniform; scores anywhere in -c..c or at its ends, laws even to nearly one point."""
    n, k, c = int(rng.integers(2, 5)), int(log_uniform(rng, 1, MOST_NEGATIVES + 1)), log_uniform(rng, *SCORES)
    law = rng.dirichlet(np.ones(n)) if rng.random() < 0.5 else 10.0 ** rng.uniform(-6, 0, size=n)
    law = law + 1e-9
    law /= law.sum()
    scores = c * (rng.uniform(-1, 1, size=(n, n)) if rng.random() < 0.5 else rng.choice([-1.0, 1.0], size=(n, n)))
    if rng.random() < 0.5:
        positives = rng.dirichlet(np.full(n, 10.0 ** rng.uniform(-1, 1)), size=n)
    else:  # as good as the encoder's own search, or nearly so
        positives = law * np.exp(rng.choice([1.0, rng.random()]) * (scores - scores.max(axis=1, keepdims=True)))
    positives = positives + 1e-12
    return FiniteSpace(law, scores, positives / positives.sum(axis=1, keepdims=True)), k, c


def measured_gaps(space: FiniteSpace, k: int, c: float) -> dict[str, tuple[float, float]]:
    """What each bound of `GAP_BOUNDS` is on, and the bound."""
    rows = zip(space.log_mean, space.cv2, space.scores.min(axis=1), strict=True)
    spread = float(sum(p * weighted_spread(*(np.array([value]) for value in row)) for p, row in zip(space.law, rows, strict=True)))
    bounds = gap_bounds(k, c, weighted_spread=spread)
    whole, risk, decoupled = space.cross_entropy, space.risk(k), space.decoupled_risk(k)
    search, around = space.search_cross_entropy(k), search_gap_bound(k, c, 1.0 + space.chi2)
    upper = {name: (whole - decoupled, getattr(bounds, name)) for name in ("published", "scores", "uniform", "instance")}
    return {
        "lower": (risk - whole, -bounds.low),
        "jensen": (decoupled - whole, 0.0),
        **upper,
        "published_coupled": (whole - risk, bounds.published),
        "least": (whole - decoupled, bounds.high),
        "search": (abs(search - risk), around),
        "search_decoupled": (abs(search - decoupled), around + bounds.low),
    }


def drawn_move(rng, *, largest_norm: float | None) -> tuple[EmbeddedTuple, EmbeddedTuple, float, float]:
    """2..7 dimensions, k of 1..32 and c of .05..100 log-uniform; some parts move by .001 to anywhere, of the negatives all or one."""

    def unit(vectors):
        return vectors / np.linalg.norm(vectors, axis=1, keepdims=True)

    k, width, c = int(log_uniform(rng, 1, MOST_NEGATIVES + 1)), int(rng.integers(2, 8)), log_uniform(rng, *SCORES)
    first = unit(rng.standard_normal((k + 2, width)))
    if rng.random() < 0.5:  # negatives in a bunch, next to the positive or opposite to it
        first[2:] = unit(rng.choice([-1.0, 1.0]) * first[1] + 10.0 ** rng.uniform(-3, 0) * first[2:])
    moving = rng.random(3) < 0.6
    if not moving.any():
        moving[rng.integers(3)] = True
    step = log_uniform(rng, 1e-3, 10.0) * rng.standard_normal((k + 2, width))
    moved = np.append(moving[:2], np.full(k, moving[2]))
    kind = rng.random()
    if kind < 0.3:  # all negatives move alike
        step[2:] = step[2]
    elif kind < 0.6:  # only the nearest to the anchor does, which has most of the softmax
        moved[2:] &= np.arange(k) == np.argmax(first[2:] @ first[0])
    last = np.where(moved[:, None], unit(first + step), first)
    if largest_norm is not None:
        shares = rng.random((k + 2, 1)) ** rng.choice([0.1, 1.0])
        first, last = largest_norm * shares * first, largest_norm * shares * last
    temperature = (1.0 if largest_norm is None else largest_norm**2) / c
    return EmbeddedTuple(first[0], first[1], first[2:]), EmbeddedTuple(last[0], last[1], last[2:]), temperature, c


def measured_moves(rng, *, dot: bool) -> tuple[float, dict[str, tuple[float, float]]]:
    largest_norm = log_uniform(rng, 0.1, 30.0) if dot else None
    start, end, temperature, c = drawn_move(rng, largest_norm=largest_norm)
    found = continuity_bound(start, end, temperature, largest_norm=largest_norm or 1.0)
    return c, {name: (found.change, getattr(found, name)) for name in MOVE_BOUNDS}


def summary(words: dict[str, tuple[str, str, str]], scores: list[float], measured: list[dict[str, tuple[float, float]]]) -> list[dict]:
    """Of each bound how often it was violated, and by which ratio it was reached, in all and by c."""
    c = np.array(scores)
    rows = []
    for name, (gap, formula, source) in words.items():
        values, bounds = np.array([each[name] for each in measured]).T
        rounding = ABSOLUTE * (1.0 + c)
        violated = values > bounds * (1.0 + RELATIVE) + rounding
        clear = (bounds > CLEAR * rounding) & (values > 0.0)
        ratios = np.where(clear, values, np.nan) / np.where(clear, bounds, 1.0)
        row = {"name": name, "gap": gap, "formula": formula, "source": source, "instances": len(c), "violations": int(violated.sum())}
        row["ratios"] = int(clear.sum())
        row["median"] = float(np.nanmedian(ratios)) if clear.any() else None
        row["closest"] = float(np.nanmax(ratios)) if clear.any() else None
        held = [clear & (low <= c) & (c < high) for low, high in BANDS]
        row["closest_by_score"] = [float(ratios[each].max()) if each.any() else None for each in held]
        row["largest_excess"] = float((values - bounds).max())
        rows.append(row)
    return rows


def claim(words: str, rows: list[dict], ratios: list[float]) -> dict[str, object]:
    violations = sum(row["violations"] for row in rows)
    return {
        "claim": f"{words}: the gap over the least proven bound, {len(rows)} bounds checked",
        "median": float(np.median(ratios)),
        "min": float(np.min(ratios)),
        "max": float(np.max(ratios)),
        "unit": "x",
        "rounds": rows[0]["instances"],
        "bound": 1.0,
        "holds": violations == 0,
        "note": f"{violations} violations; ratios of bounds above rounding",
    }


def clear_ratios(scores: list[float], measured: list[dict[str, tuple[float, float]]], name: str) -> list[float]:
    pairs = [(*each[name], c) for each, c in zip(measured, scores, strict=True)]
    return [value / bound for value, bound, c in pairs if bound > CLEAR * ABSOLUTE * (1.0 + c)]


def table(rows: list[dict]) -> list[str]:
    def number(value):
        return "" if value is None else f"{value:.3f}" if value >= 5e-4 else f"{value:.0e}"

    def span(low, high):
        return f"c < {high:g}" if low == 0.0 else f"c >= {low:g}" if high == np.inf else f"{low:g} <= c < {high:g}"

    heads = ["gap", "bound", "from", "instances", "violations", "median", "closest", *(span(*band) for band in BANDS)]
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = [row["gap"].replace("|", "\\|"), f"`{row['formula']}`", row["source"], f"{row['instances']:,}", f"{row['violations']:,}"]
        cells += [number(value) for value in (row["median"], row["closest"], *row["closest_by_score"])]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def command(found: dict) -> str:
    """What was typed to find it, but for where it was written."""
    asked = {name: found.get(name, default) for name, default in SIZES.items()}
    options = [f"--{name} {value}" for name, value in asked.items() if value != SIZES[name]]
    return " ".join(["python benchmarks/infonce_bounds.py", *options])


def places(options: argparse.Namespace) -> tuple[Path, Path] | None:
    """Where result and page of a run go: where it was asked, to the committed ones at the default size, else nowhere."""
    if options.out is not None:
        return options.out / RESULTS.name, options.out / PAGE.name
    return (RESULTS, PAGE) if all(getattr(options, name) == default for name, default in SIZES.items()) else None


def page(found: dict) -> str:
    gaps, cosine, dot = (found["bounds"][name] for name in ("gaps", "cosine", "dot"))
    total = gaps[0]["instances"] + cosine[0]["instances"] + dot[0]["instances"]
    checks = [row for rows in (gaps, cosine, dot) for row in rows]
    violations, checked = sum(row["violations"] for row in checks), sum(row["instances"] for row in checks)
    lines = [
        "# Bounds on InfoNCE, tried out",
        "",
        "<!-- written by benchmarks/infonce_bounds.py -->",
        "",
        f"{total:,} random instances, {checked:,} checks of a bound, **{violations:,} violations**: {gaps[0]['instances']:,} enumerated "
        f"spaces, {cosine[0]['instances']:,} moves by cosine and {dot[0]['instances']:,} by dot product. "
        f"A bound counts as violated where the gap is above it by more than {RELATIVE:g} of it and {ABSOLUTE:g} (1 + c), which is for the "
        "rounding of the sums. The ratio is gap over bound: 1 is a bound that is reached. It is left out where the gap is below 0 or the "
        f"bound below {CLEAR:,.0f} times that tolerance; violations are counted there too. *Median* and *closest* are of these ratios, the "
        "columns by c the closest of theirs.",
        "",
        f"Made by `{command(found)}` (seed {found['seed']}, {found['seconds']:.0f} s of one core). `--spaces N`, `--moves N` and "
        "`--seed N` ask for other instances: those are printed, and written only to a folder of your own (`--out FOLDER`).",
        "",
        "H is the cross-entropy of softmax search over all data, R_k the InfoNCE risk with k negatives less log k, Rt_k the same without "
        "the positive in the denominator (DCL), H_k the cross-entropy of a search over k candidates; c is the largest score: "
        "1 / temperature for cosine. pi is the law that negatives are drawn from, M the law of a query's positives, and dM/dpi the ratio "
        "of the two; mu is the mean of e^score over pi, m the least e^score, cv2 the variance of e^score over the square of its mean. What "
        "these are good for: [How many negatives, which temperature?](guide/negatives.md)",
        "",
        "## The gap of k negatives",
        "",
        f"Spaces of 2 to 4 points, where each of these is a finite sum; k from 1 to {MOST_NEGATIVES} and c from {SCORES[0]:g} to "
        f"{SCORES[1]:g}, both log-uniform; scores anywhere within -c..c or at its ends only, laws from even to nearly one point, "
        "positives unrelated to the scores or drawn as the encoder would.",
        "",
        *table(gaps),
        "",
        "The bounds that know nothing but c are reached where scores are small. As k grows the worst law has k (H - Rt_k) = sinh(c)^2 / 2, "
        "a quarter of ours for large c; before that 2c is the least of the bounds.",
        "",
        "## What a move of the embeddings changes",
        "",
        "One tuple, embedded twice: the change of its loss is at most (b / tau) times the steps of anchor, positive and negatives, weighed "
        "with three constants; b is the largest length of a vector, tau the temperature. *Spread 2c* takes the largest difference that two "
        "scores can have, *residual and spread on the way* the largest 1 - p of the positive, and the differences, between start and end. "
        "Some parts move by .001 to anywhere, of the negatives all apart, all alike or only the one nearest to the "
        "anchor. By cosine (b = 1):",
        "",
        *table(cosine),
        "",
        "By dot product, vectors of any length up to b:",
        "",
        *table(dot),
        "",
        "None of the constants (2, 1, 1) can be lowered: there are moves of anchor, positive or negatives alone that reach 99.5% of each "
        "(`tests/theory/test_infonce_continuity.py`).",
        "",
        "## Reference",
        "",
        "Whiteley (2026), Similarity search generalisation in contrastive learning with InfoNCE loss, arXiv 2607.09405, whose numbers of "
        'propositions and equations these are. "Ours" are derived in the docstrings of `normwise.theory.infonce_bounds` and '
        "`normwise.theory.infonce_continuity`.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, default in SIZES.items():
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--out", type=Path, help="a folder for result and page; needed for other sizes than the default")
    parser.add_argument("--page", action="store_true")
    options = parser.parse_args()
    if options.page:
        found, written = places(options) or parser.error("--page is of the committed result: leave sizes out, or give --out")
        write_text(written, page(read_json(found)))
        return
    started = time.process_time()
    rng = np.random.default_rng(options.seed)
    spaces = [drawn_space(rng) for _ in range(options.spaces)]
    gap_scores, gaps = [c for _, _, c in spaces], [measured_gaps(*each) for each in spaces]
    moves = {name: [measured_moves(rng, dot=name == "dot") for _ in range(options.moves // 2)] for name in ("cosine", "dot")}
    found = {"gaps": summary(GAP_BOUNDS, gap_scores, gaps)}
    claims = [
        claim("the gap between InfoNCE with k negatives and search over everything", found["gaps"], clear_ratios(gap_scores, gaps, "least"))
    ]
    for name, pairs in moves.items():
        scores, measured = [c for c, _ in pairs], [each for _, each in pairs]
        found[name] = summary(MOVE_BOUNDS, scores, measured)
        by = "cosine" if name == "cosine" else "dot product"
        claims.append(claim(f"InfoNCE of one tuple embedded twice, by {by}", found[name], clear_ratios(scores, measured, "bound")))
    machine = (
        f"{os.cpu_count()} cores, {platform.system()} {platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}"
    )
    result = {"machine": machine, "claims": claims, **{name: getattr(options, name) for name in SIZES}}
    result |= {"seconds": time.process_time() - started, "bounds": found}
    if (there := places(options)) is not None:
        there[0].parent.mkdir(parents=True, exist_ok=True)
        write_json(there[0], result)
        write_text(there[1], page(result))
    else:
        print("another size or seed than the committed page is of: nothing is written without --out")
    for each in claims:
        print(each)


if __name__ == "__main__":
    main()
