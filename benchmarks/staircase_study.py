"""What becomes of claims about which statistics embeddings learn first, each over preset seeds; writes docs/staircase_results.md.

A claim stands as differences that must lie above 0, one value per seed; intervals are of a bootstrap over seeds at the level that Holm's
rule reaches over all differences of all claims here. Reproduced: every interval lies above 0. Not reproduced: one does not and ends below
the least that would matter. Else undecided at this size.

Laid down before the first run, for seeds 200 to 209, and 200 to 204 of the long ones, C4.6 to C4.8 (the guide and older tests have 100 to
109, whose figures were known by then):

C4.4  Addition of 0..19, 81 ids: the figure of order 0 at step 200 is higher at gamma .8 than at .5, and at 1.0 than at .8; least .005.
C4.6  Parity of one anchor among seven tokens of noise, one layer of attention, 200 steps of Adam: anchors grow in length by more than a
      half, the attention they get by more than a tenth, and the length of noise changes by less than a tenth. With 61 outputs and with 2.
C4.7  Modular sums of 0..19 to modulus M = 3..20, 3,000 steps: a divisor of 20 reaches .95 later than another modulus in more than three
      of four pairs (what is not within 3,000 steps is later than what is, and a tie with its like). And the sizes: divisors take 1,000
      steps or more, others fewer, in more than nine of ten. With Adam and 81 outputs, Adam and 21 outputs, descent and 81 outputs.
C4.8  A decoder of two layers on docstrings (4,096 words, width 64, AdamW at .002), 1,700 steps, which is one pass: alignment with the next
      word, over pairs of the 200 most frequent ones, peaks more than .1 above its null within the first quarter of the steps, falls by
      more than .05 from there to the end, and ends more than .1 above its null. Laid down when other seeds had been seen for 600 steps.
C4.9  Modular sums and sums of 0..19, 81 ids, 3,000 steps: embeddings fixed to signatures reach .95 earlier than trained ones, least a
      tenth earlier (log2 of the ratio; what is not within counts as 3,000, and a seed in which neither is says nothing); with descent and
      with Adam. And on modular sums random fixed ones are more accurate until trained ones reach .5: mean difference, least .02.

The table of modular sums and addition (plain descent at rate 1, gamma .8) and the plateau of Adam (modular sums of 0..39, 101 ids, gamma
1.0) have no claim: figures laid down from one seed, beside means of ten.

Rates are 1 with descent and .001 with Adam, entries of E and U are N(0, 128^(-2 gamma)) with gamma .8, ReLU, width 128, full batches.

Run: python benchmarks/staircase_study.py [--only c4.6 ...] [--page]; --only replaces these sections of what was found, --page only writes
the page again.
"""

from __future__ import annotations

import argparse
import json
import os

# Before torch is there: two processes of one thread each are faster than one of two at these sizes.
os.environ.setdefault("OMP_NUM_THREADS", "1")

import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any, Literal

import numpy as np
from staircase_page import Claim, Section, judged, markdown, mean_of

from normwise.core.files import read_json, write_text
from normwise.data.running_text import installed_text
from normwise.theory.signatures import label_signature
from normwise.theory.stairs import task_onset
from normwise.training.staircase_figures import LEARNED, StairMeter
from normwise.training.staircase_language import LanguageRun
from normwise.training.staircase_models import StairInit, TableKind, attention_net, feed_forward_net
from normwise.training.staircase_tasks import StairTask, addition_task, modular_task, parity_task
from normwise.training.staircase_training import StairRun, StairSeries, train_stairs
from normwise.workflows.staircase_text import VOCABULARY, follow_seed, text_signatures

ROOT = Path(__file__).parents[1]
RESULT, PAGE = ROOT / "docs" / "results" / "staircase.json", ROOT / "docs" / "staircase_results.md"
Optimizer = Literal["sgd", "adam"]
SEEDS, FEW_SEEDS = tuple(range(200, 210)), tuple(range(200, 205))
RATES: dict[Optimizer, float] = {"sgd": 1.0, "adam": 0.001}
WORDS: dict[Optimizer, str] = {"sgd": "plain descent", "adam": "Adam"}
GAMMAS, INIT_STEP, INIT_LEAST = (0.5, 0.8, 1.0), 200, 0.005
ANCHORS_GROW, ATTENTION_GROWS, NOISE_STAYS = 1.5, 1.1, 1.1
MODULI, DIVISORS, LAST_STEP, PAIRS_LATER, SLOW_FROM, AS_SAID = range(3, 21), (4, 5, 10, 20), 3_000, 0.75, 1_000, 0.9
SLOWDOWNS: tuple[tuple[Optimizer, int], ...] = (("adam", 81), ("adam", 21), ("sgd", 81))
FASTER_LEAST, EARLY_UNTIL, EARLY_LEAST = float(np.log2(1.1)), 0.5, 0.02
TEXT_STEPS, PEAK_ABOVE, PEAK_BY, FALLS = 1_700, 0.1, 0.25, 0.05
TABLES: tuple[TableKind, ...] = ("trained", "signature", "fixed")
# Steps, and what a single seed showed at them: loss, accuracy, 1 - MSE, frequency 10 alone (None where it was not noted).
MODULAR = {
    20: (4.35, 0.10, 0.26, None), 40: (3.80, 0.05, 0.94, None), 60: (3.10, 0.09, 0.99, 0.1), 100: (3.01, 0.18, 0.99, 0.16),
    150: (2.96, 0.32, 0.99, 0.79), 175: (2.90, 0.35, 0.97, 0.93), 200: (2.80, 0.39, 0.93, 0.96), 250: (2.51, 0.49, 0.78, 0.93),
    300: (1.82, 0.86, 0.53, 0.84), 400: (0.32, 1.00, 0.20, 0.74), 600: (0.05, 1.00, 0.11, 0.65),
}  # fmt: skip
ADDITION = {20: 0.13, 60: 0.92, 80: 0.97, 100: 0.99, 200: 0.998, 225: 0.998, 400: 0.97, 2400: 0.87}
FREQUENCY = 10


def train(task: StairTask, run: StairRun, *, gamma: float = 0.8, table: TableKind = "trained", seeds: Sequence[int] = SEEDS) -> StairSeries:
    init = StairInit(seeds, gamma=gamma)
    if task.anchors is not None:
        return train_stairs(attention_net(task.law, init), task, run, seeds=seeds)
    signature = label_signature(task.law, order=1).values if table == "signature" else None
    return train_stairs(feed_forward_net(task.law, init, table=table, signature=signature), task, run, seeds=seeds)


def run_of(optimizer: Optimizer, looks: Iterable[int]) -> StairRun:
    steps = list(looks)
    return StairRun(steps[-1], steps, optimizer, RATES[optimizer])


def spread(pool: ProcessPoolExecutor, work: Callable[..., Any], jobs: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    """Results of all jobs by their arguments, joined with a slash."""
    found = pool.map(work, *zip(*jobs, strict=True))
    return {"/".join(map(str, job)): each for job, each in zip(jobs, found, strict=True)}


def rounded(values: Any) -> Any:
    return np.round(np.asarray(values, dtype=np.float64), 5).tolist()


def onsets(series: StairSeries) -> list[int | None]:
    # As in `stairs_by_seed`: at or above, and sums of weights are known to a few units of the sixteenth digit.
    return [task_onset(series.steps, row, threshold=LEARNED - 1e-9) for row in series.accuracy]


# C4.4


def init_job(optimizer: Optimizer, gamma: float) -> dict[str, Any]:
    task = addition_task(20, vocabulary=81)
    series = train(task, run_of(optimizer, range(0, 601, 10)), gamma=gamma)
    figures = StairMeter(task, probed=False).figures(series)
    return {"steps": series.steps.tolist(), "order_0": rounded(figures.alignment[0]), "accuracy": rounded(series.accuracy)}


def measure_inits(pool: ProcessPoolExecutor) -> dict[str, Any]:
    return spread(pool, init_job, [(optimizer, gamma) for optimizer in RATES for gamma in GAMMAS])


def tell_inits(found: dict[str, Any]) -> Section:
    claims, looks = [], (20, 50, 100, 200, 300, 400, 600)
    rows, counts = [], []
    for optimizer in RATES:
        figures = [np.array(found[f"{optimizer}/{gamma}"]["order_0"]) for gamma in GAMMAS]
        steps = found[f"{optimizer}/{GAMMAS[0]}"]["steps"]
        at = [each[:, steps.index(INIT_STEP)] for each in figures]
        needs = {
            f"gamma {high} less {low}": ((above - below).tolist(), INIT_LEAST)
            for low, high, below, above in zip(GAMMAS, GAMMAS[1:], at, at[1:], strict=False)
        }
        claims.append(Claim(f"C4.4 a smaller init is closer to order 0 at step {INIT_STEP}, {WORDS[optimizer]}", needs))
        for place in (0, 1):
            higher = figures[place + 1] > figures[place]
            cells = [f"{higher[:, steps.index(step)].sum()} of {len(higher)}" for step in looks]
            counts.append([WORDS[optimizer], f"{GAMMAS[place + 1]} above {GAMMAS[place]}", *cells])
        for gamma, figure in zip(GAMMAS, figures, strict=True):
            early = np.array(found[f"{optimizer}/{gamma}"]["accuracy"]) <= 0.3
            best = np.where(np.minimum.accumulate(early, axis=1), figure, -1.0)
            reached = [steps[place] for place in best.argmax(axis=1)]
            cells = [mean_of(figure[:, steps.index(step)]) for step in looks]
            rows.append([WORDS[optimizer], str(gamma), *cells, mean_of(best.max(axis=1)), f"{min(reached)} to {max(reached)}"])
    header = ["optimizer", "gamma", *map(str, looks), "highest until accuracy .3", "at steps"]
    text = (
        "Addition of 0..19 with 81 ids. A smaller init also takes longer to leave, so that one step is not the same stage of all three: "
        "the last columns have the highest figure of each seed while its accuracy is .3 at most."
    )
    tables = [
        ("Figure of order 0 by step, mean ± sd over seeds.", header, rows),
        ("In how many seeds the smaller init has the higher figure, by step.", ["optimizer", "gamma", *map(str, looks)], counts),
    ]
    return Section("C4.4: size of the init", text, claims, tables)


# C4.6


def parity_job(optimizer: Optimizer, outputs: int) -> dict[str, Any]:
    task = parity_task(seed=0, outputs=outputs)
    # Descent had 600 steps at first; by the last of them the loss of one seed was no number any more.
    series = train(task, run_of(optimizer, range(0, 201 if optimizer == "adam" else 401, 20)), seeds=FEW_SEEDS)
    rows = series.embedding.astype(np.float64)
    lengths = np.linalg.norm(rows, axis=3)
    moved = np.linalg.norm(rows - rows[:, :1], axis=3) / lengths[:, :1]
    found: dict[str, Any] = {"steps": series.steps.tolist(), "accuracy": rounded(series.accuracy)}
    assert task.anchors is not None
    assert series.attention is not None
    for name, ids in (("anchors", task.anchors), ("noise", np.setdiff1d(task.seen, task.anchors))):
        parts = {"length": lengths, "moved": moved, "attention": series.attention}
        found[name] = {part: rounded(values[:, :, ids].mean(axis=2)) for part, values in parts.items()}
    return found


def measure_parity(pool: ProcessPoolExecutor) -> dict[str, Any]:
    return spread(pool, parity_job, [(optimizer, outputs) for optimizer in ("sgd", "adam") for outputs in (61, 2)])


def tell_parity(found: dict[str, Any]) -> Section:
    claims, rows = [], []
    for outputs in (61, 2):
        for optimizer in ("adam", "sgd"):
            each = found[f"{optimizer}/{outputs}"]
            grown = {
                (name, part): np.log(np.array(each[name][part])[:, -1] / np.array(each[name][part])[:, 0])
                for name in ("anchors", "noise")
                for part in ("length", "attention")
            }
            if optimizer == "adam":
                needs = {
                    "log of anchors' growth over 1.5": ((grown["anchors", "length"] - np.log(ANCHORS_GROW)).tolist(), 0.0),
                    "log of their attention's growth over 1.1": ((grown["anchors", "attention"] - np.log(ATTENTION_GROWS)).tolist(), 0.0),
                    "log 1.1 less that of noise's change": ((np.log(NOISE_STAYS) - np.abs(grown["noise", "length"])).tolist(), 0.0),
                }
                claims.append(Claim(f"C4.6 anchors grow and draw attention, noise freezes, {outputs} outputs", needs))
            for name in ("anchors", "noise"):
                part = {key: np.array(values) for key, values in each[name].items()}
                ends = [f"{mean_of(part[key][:, 0])} → {mean_of(part[key][:, -1])}" for key in ("length", "attention")]
                last = f"{WORDS[optimizer]}, {each['steps'][-1]} steps"
                task = mean_of(np.array(each["accuracy"])[:, -1])
                rows.append([str(outputs), last, name, *ends, mean_of(part["moved"][:, -1]), task])
    header = ["outputs", "optimizer", "tokens", "length", "attention", "moved by, of its first length", "accuracy at the end"]
    text = (
        "Anchors 11..20, noise 21..60, eight tokens of which one is an anchor, 10,000 sequences, the same for all seeds. 61 outputs are "
        "one for each id, 2 one for each label. Descent is a control."
    )
    return Section("C4.6: anchors and noise", text, claims, [("From the init to the last step, mean ± sd over seeds.", header, rows)])


# C4.7


def modulus_job(optimizer: Optimizer, outputs: int, modulus: int) -> list[int | None]:
    # Ids that never occur have no gradient: 20 rows of E learn as 81 would.
    task = modular_task(modulus, vocabulary=20, tokens=20, outputs=outputs)
    return onsets(train(task, run_of(optimizer, range(0, LAST_STEP + 1, 20)), seeds=FEW_SEEDS))


def measure_moduli(pool: ProcessPoolExecutor) -> dict[str, Any]:
    return spread(pool, modulus_job, [(*setting, modulus) for setting in SLOWDOWNS for modulus in MODULI])


def share_later(divisors: np.ndarray, others: np.ndarray) -> float:
    """Share of pairs in which the divisor's onset is the later one; ties are half."""
    difference = divisors[:, None] - others[None, :]
    return float((difference > 0.0).mean() + 0.5 * (difference == 0.0).mean())


def tell_moduli(found: dict[str, Any]) -> Section:
    later, sizes, columns, neighbors = [], [], [], []
    for optimizer, outputs in SLOWDOWNS:
        by_modulus = {m: filled(found[f"{optimizer}/{outputs}/{m}"], np.inf) for m in MODULI}
        divisors, others = (np.stack([by_modulus[m] for m in MODULI if (m in DIVISORS) == side]) for side in (True, False))
        # inf - inf is no number: what never comes is one step later than the last.
        ends = [np.where(np.isinf(each), LAST_STEP + 1.0, each) for each in (divisors, others)]
        shares = [share_later(*pair) for pair in zip(ends[0].T, ends[1].T, strict=True)]
        said = np.concatenate([divisors >= SLOW_FROM, others < SLOW_FROM]).mean(axis=0)
        name = f"{WORDS[optimizer]}, {outputs} outputs"
        later.append(
            Claim(f"C4.7 divisors of 20 are slower, {name}", {"share of pairs over .75": ([x - PAIRS_LATER for x in shares], 0.0)})
        )
        sizes.append(
            Claim(
                f"C4.7 divisors take 1,000 steps or more, others fewer, {name}",
                {"share of moduli over .9": ((said - AS_SAID).tolist(), 0.0)},
            )
        )
        columns.append([spell(by_modulus[m]) for m in MODULI])
        near = [(m, n) for m in DIVISORS for n in (m - 1, m + 1) if n in by_modulus and n not in DIVISORS]
        beyond = [np.where(np.isinf(by_modulus[m]), LAST_STEP + 1.0, by_modulus[m]) for m in MODULI]
        slower = [beyond[m - MODULI[0]] > beyond[n - MODULI[0]] for m, n in near]
        neighbors.append([name, f"{np.mean(shares):.2f}", f"{np.mean(slower):.2f}", f"{said.mean():.2f}"])
    header = ["M", *(f"{WORDS[optimizer]}, {outputs} outputs" for optimizer, outputs in SLOWDOWNS)]
    rows = [[f"**{m}**" if m in DIVISORS else str(m), *cells] for m, *cells in zip(MODULI, *columns, strict=True)]
    text = (
        "y = (x₁ + x₂ + 1) mod M, x = 0..19: the inputs stay, the modulus changes. Divisors of 20, in bold, have labels uniform over "
        "0..M − 1 given any token."
    )
    shares_header = ["setting", "pairs with the later divisor", "of them with M ± 1 only", "moduli of the said size"]
    told = [
        ("Step of .95 accuracy: median over seeds that reach it, least and largest, and how many do not within 3,000.", header, rows),
        ("Shares, means over seeds. Larger moduli have more labels; M and M ± 1 compare without that.", shares_header, neighbors),
    ]
    return Section("C4.7: does the modulus divide?", text, [*later, *sizes], told)


def filled(steps: Sequence[int | None], value: float) -> np.ndarray:
    return np.array([value if step is None else float(step) for step in steps])


def spell(steps: np.ndarray) -> str:
    known = np.sort(steps[np.isfinite(steps)])
    lost = steps.size - known.size
    if not known.size:
        return "not within"
    ends = f"{np.median(known):,.0f} ({known[0]:,.0f} to {known[-1]:,.0f})"
    return f"{ends}; {lost} not within" if lost else ends


# C4.8


def text_job(seed: int) -> dict[str, Any]:
    text = installed_text(vocabulary=VOCABULARY)
    run = LanguageRun(steps=TEXT_STEPS)
    found, report = follow_seed(text, text_signatures(text, window=run.length), run, seed=seed)
    gains = {str(row.step): [row.r2, row.gain, row.null] for row in report.gains if row.order == 1}
    return {
        "steps": found.steps.tolist(),
        "loss": rounded(found.loss),
        "accuracy": rounded(found.accuracy),
        "order_0": report.alignment["0"],
        "order_1": report.alignment["1"],
        "null_sd": report.spread["0"],
        "norm_frequency": report.norm_frequency,
        "gains": gains,
        "unigram": found.unigram,
        "bigram": found.bigram,
        "label": report.verdict.label,
    }


def measure_text(pool: ProcessPoolExecutor) -> dict[str, Any]:
    # The text is cached once, before two processes ask for it.
    installed_text(vocabulary=VOCABULARY)
    return spread(pool, text_job, [(seed,) for seed in FEW_SEEDS])


def tell_text(found: dict[str, Any]) -> Section:
    seeds = list(found.values())
    steps = np.array(seeds[0]["steps"])
    zero, one = (np.array([each[name] for each in seeds]) for name in ("order_0", "order_1"))
    top = zero.argmax(axis=1)
    peak = zero.max(axis=1)
    claim = Claim(
        "C4.8 alignment with the next word peaks early, then decays to a level above its null",
        {
            "peak above the null less .1": ((peak - PEAK_ABOVE).tolist(), 0.0),
            "a quarter less the share of steps at the peak": ((PEAK_BY - steps[top] / steps[-1]).tolist(), 0.0),
            "fall from the peak to the end less .05": ((peak - zero[:, -1] - FALLS).tolist(), 0.0),
            "end above the null less .1": ((zero[:, -1] - PEAK_ABOVE).tolist(), 0.0),
        },
    )
    rows = [
        [
            f"{step:,}",
            mean_of([each["loss"][at] for each in seeds]),
            mean_of([each["accuracy"][at] for each in seeds]),
            mean_of(zero[:, at]),
            mean_of(one[:, at]),
            mean_of([each["norm_frequency"][at] for each in seeds], 2),
        ]
        for at, step in enumerate(steps)
    ]
    last = max((int(step) for step in seeds[0]["gains"]), default=0)
    gain = mean_of([each["gains"][str(last)][1] for each in seeds]) if last else "nothing"
    text = (
        f"Docstrings and reference topics of Python, numpy, scipy and scikit-learn, 5% of the documents held out. The null's standard "
        f"deviation is {np.mean([each['null_sd'] for each in seeds]):.4f}. Loss on held-out documents is {seeds[0]['unigram']:.3f} by "
        f"frequency alone and {seeds[0]['bigram']:.3f} by the word before. The peak is at steps "
        f"{', '.join(f'{step:,}' for step in np.sort(steps[top]))}, and from there to the end the figure falls by "
        f"{(peak - zero[:, -1]).min():.3f} to {(peak - zero[:, -1]).max():.3f}. Order 1 (the next word with one of the 64 before it) "
        f"follows order 0: at step {last:,} it adds {gain} of R² to it."
    )
    header = ["step", "loss", "accuracy", "order 0", "order 1", "length and frequency"]
    return Section("C4.8: a small language model", text, [claim], [("Mean ± sd over seeds.", header, rows)])


# C4.9


def table_job(task: str, optimizer: Optimizer, table: TableKind) -> dict[str, Any]:
    made = modular_task(20, vocabulary=81) if task == "mod" else addition_task(20, vocabulary=81)
    series = train(made, run_of(optimizer, [*range(0, 600, 10), *range(600, LAST_STEP + 1, 40)]), table=table)
    return {"steps": series.steps.tolist(), "onsets": onsets(series), "accuracy": rounded(series.accuracy)}


def measure_tables(pool: ProcessPoolExecutor) -> dict[str, Any]:
    return spread(pool, table_job, [(task, optimizer, table) for task in ("mod", "add") for optimizer in RATES for table in TABLES])


def tell_tables(found: dict[str, Any]) -> Section:
    claims, early, rows = [], [], []
    for task in ("mod", "add"):
        for optimizer in RATES:
            each = {table: found[f"{task}/{optimizer}/{table}"] for table in TABLES}
            trained, signature = (filled(each[table]["onsets"], LAST_STEP) for table in ("trained", "signature"))
            neither = np.array(
                [a is None and b is None for a, b in zip(each["trained"]["onsets"], each["signature"]["onsets"], strict=True)]
            )
            ratios = np.where(neither, np.nan, np.log2(trained / signature))
            name = f"{task}, {WORDS[optimizer]}"
            needs = {"log2 of onsets, trained over signature": (ratios.tolist(), FASTER_LEAST)}
            claims.append(Claim(f"C4.9 embeddings fixed to signatures learn faster, {name}", needs))
            if task == "mod":
                free, fixed = (np.array(each[table]["accuracy"]) for table in ("trained", "fixed"))
                start = ~np.maximum.accumulate(free >= EARLY_UNTIL, axis=1)
                gains = [float((b - a)[early_steps].mean()) for a, b, early_steps in zip(free, fixed, start, strict=True)]
                early.append(
                    Claim(f"C4.9 random fixed embeddings are ahead early, {name}", {"mean difference in accuracy": (gains, EARLY_LEAST)})
                )
            for table in TABLES:
                listed = ", ".join("–" if step is None else f"{step:,}" for step in each[table]["onsets"])
                ends = np.array(each[table]["accuracy"])
                steps = each[table]["steps"]
                rows.append([task, WORDS[optimizer], table, listed, *(mean_of(ends[:, steps.index(step)], 2) for step in (100, 200, 400)),
                             mean_of(ends[:, -1], 2)])  # fmt: skip
    header = ["task", "optimizer", "embedding", "step of .95 by seed", "accuracy at 100", "200", "400", "3,000"]
    text = (
        "*trained*: E and U learn. *signature*: row a of E is λ R φ v, with φ the signature of order 1 of token a, R and v random and λ "
        "trained. *fixed*: E stays at its init. U is trained in all three. One rate per optimizer, not one per embedding. Adam moves λ, "
        "one number on a table of norm 1, by about its rate a step, and every entry of a trained E by as much: with Adam the comparison "
        "hangs on the size that λ is counted in, which is ours. *Ahead early* is over the checkpoints before trained ones reach .5 in that "
        "seed, over all of them where they never do."
    )
    return Section("C4.9: embeddings that are not trained", text, [*claims, *early], [("– is not within 3,000 steps.", header, rows)])


# The table of the demonstration: no claim.


def demonstration_job(kind: str) -> dict[str, Any]:
    if kind == "plateau":
        made, gamma, run = modular_task(40, vocabulary=101), 1.0, run_of("adam", range(0, 1201, 100))
    else:
        made = modular_task(20, vocabulary=81) if kind == "mod" else addition_task(20, vocabulary=81)
        gamma, run = 0.8, run_of("sgd", range(0, 601, 5) if kind == "mod" else [0, *ADDITION])
    series = train(made, run, gamma=gamma)
    figures = StairMeter(made, probed=kind == "mod").figures(series)
    found = {"loss": series.loss, "accuracy": series.accuracy, "order_0": figures.alignment[0]}
    if figures.by_frequency is not None:
        found |= {"frequency": figures.by_frequency[:, :, FREQUENCY], "combined": figures.above_null[1]}
        found["single_peak"] = np.nan_to_num(figures.by_frequency[:, :, 1:], nan=-1.0).max(axis=(1, 2))
    return {"steps": series.steps.tolist()} | {name: rounded(values) for name, values in found.items()}


def measure_demonstration(pool: ProcessPoolExecutor) -> dict[str, Any]:
    return spread(pool, demonstration_job, [("plateau",), ("mod",), ("add",)])


def tell_demonstration(found: dict[str, Any]) -> Section:
    modular, added, flat = found["mod"], found["add"], found["plateau"]
    rows = []
    for step, listed in MODULAR.items():
        at = modular["steps"].index(step)
        cells: list[str] = []
        for name, one in zip(("loss", "accuracy", "order_0", "frequency"), listed, strict=True):
            cells += ["" if one is None else f"{one:g}", mean_of(np.array(modular[name])[:, at], 2)]
        rows.append([str(step), *cells, mean_of(np.array(modular["combined"])[:, at], 2)])
    header = ["step", "loss", "found", "accuracy", "found", "1 − MSE", "found", f"frequency {FREQUENCY} alone", "found", "all, less null"]
    sums = []
    for step, one in ADDITION.items():
        at = added["steps"].index(step)
        sums.append([f"{step:,}", f"{one:g}", *(mean_of(np.array(added[name])[:, at]) for name in ("order_0", "accuracy"))])
    peaks = np.sort(modular["single_peak"])
    text = (
        "Plain descent at rate 1. Beside each figure that was laid down from one seed stands the mean ± sd of ten. *All, less null* is the "
        "figure of order 1: all frequencies combined, on held-out tokens. The highest that any one frequency reaches by itself at any step "
        f"is {', '.join(f'{peak:.2f}' for peak in peaks)} in the ten seeds: {np.count_nonzero(peaks > 0.75)} exceed .75."
    )
    plateau = [[str(step), *(mean_of(np.array(flat[name])[:, at]) for name in ("order_0", "loss", "accuracy"))]
               for at, step in enumerate(flat["steps"]) if step in (0, 100, 200, 400, 800, 1200)]  # fmt: skip
    told = [
        ("y = (x₁ + x₂ + 1) mod 20, 81 ids.", header, rows),
        ("y = x₁ + x₂, 81 ids.", ["step", "order 0", "found", "accuracy"], sums),
        (
            "The plateau: modular sums of 0..39, 101 ids, Adam, gamma 1.0; laid down: 1 − MSE 1.000 by step 100, and stuck beyond 1,200.",
            ["step", "1 − MSE", "loss", "accuracy"],
            plateau,
        ),
    ]
    return Section("The demonstration's table", text, (), told)


# What is measured, and what the page says of it; one more claim is one more pair.
PARTS: dict[str, tuple[Callable[[ProcessPoolExecutor], dict[str, Any]], Callable[[dict[str, Any]], Section]]] = {
    "c4.4": (measure_inits, tell_inits),
    "c4.6": (measure_parity, tell_parity),
    "c4.7": (measure_moduli, tell_moduli),
    "c4.8": (measure_text, tell_text),
    "c4.9": (measure_tables, tell_tables),
    "table": (measure_demonstration, tell_demonstration),
}


def page(found: dict[str, Any]) -> str:
    sections = [tell(found[name]["found"]) for name, (_, tell) in PARTS.items() if name in found]
    claims = [claim for section in sections for claim in section.claims]
    minutes = sum(found[name]["seconds"] for name in PARTS if name in found) / 60.0
    parts = [
        "# Which statistics come first: what held",
        "<!-- written by benchmarks/staircase_study.py -->",
        f"Made by `python benchmarks/staircase_study.py` ({minutes:.0f} min on two cores that had other work, too; `--only c4.6` runs one "
        "part, `--page` only writes this page again). Words and figures are those of [the guide](guide/staircase.md); networks and tasks "
        "are of the context staircase paper (arXiv 2608.30315), which gives neither optimizer nor rate nor init for its small runs.",
        f"Thresholds were laid down before the first run, in the script; seeds are {SEEDS[0]} to {SEEDS[-1]}, of C4.6 to C4.8 the first "
        f"{len(FEW_SEEDS)}, other ones than those of the "
        "guide. Each claim needs differences above 0, one value per seed, whose intervals are a bootstrap over seeds, corrected by Holm's "
        f"rule over all {sum(len(claim.needs) for claim in claims)} differences. *Reproduced*: every interval lies above 0. *Not "
        "reproduced*: one does not, and ends below the least that would matter. Else *undecided at this size*. Ten seeds are few for a "
        "bootstrap, and five fewer, so that the number of seeds on the claimed side stands beside.",
        "Which order comes first (C4.1, C4.2), which powers learn which lengths (C4.3) and the growth rate of the early phase (C4.5) are "
        "tests, in tests/training.",
        markdown(["claim", "outcome", "differences"], judged(claims)),
    ]
    for section in sections:
        parts += [f"## {section.title}", section.text]
        for title, header, rows in section.tables:
            parts += [title, markdown(header, rows)]
    return "\n\n".join(parts) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--page", action="store_true", help="only write the page again")
    options = parser.parse_args()
    found: dict[str, Any] = read_json(RESULT) if RESULT.is_file() else {}
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        for name in [] if options.page else options.only:
            start = time.monotonic()
            measured = PARTS[name][0](pool)
            found[name] = {"found": measured, "seconds": round(time.monotonic() - start, 1)}
            # On one line: indented, every number would have one of its own.
            write_text(RESULT, json.dumps(found, allow_nan=False) + "\n")
            print(f"{name}: {found[name]['seconds']:.0f} s", flush=True)
    text = page(found)
    write_text(PAGE, text)
    print(text)


if __name__ == "__main__":
    main()
