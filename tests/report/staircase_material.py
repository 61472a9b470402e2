"""Reports on a staircase for the tests of its page: one of the demo and one of a training, full and bare."""

from __future__ import annotations

import math

from normwise.core.staircase_records import (
    BeyondOrderZero,
    OrderGain,
    PredictedStair,
    SeedStairsRecord,
    SeriesIntegrity,
    StaircaseReport,
    StaircaseSettings,
    StaircaseThresholds,
    StaircaseVerdict,
    StairRecord,
    TokenGroup,
    TokenMap,
    TokenNeighbors,
    TrackReport,
    TrackSettings,
    TrackThresholds,
)

STEPS = (0, 10, 20, 30, 40, 50)


def ring(count, *, names=None, step=0):
    """Tokens on a circle."""
    angles = [2 * math.pi * i / count for i in range(count)]
    points = tuple((math.cos(a), math.sin(a)) for a in angles)
    return TokenMap(step=step, names=tuple(names or (str(i) for i in range(count))), points=points, shares=(0.5, 0.25))


def stair(order=0, **changes):
    values = {"order": order, "onset": 10, "peak_step": 20, "peak": 0.8, "decay": 0.3, "seeds": 3, "earliest": 10, "latest": 20}
    return StairRecord(**{**values, **changes})


def demo_report(text="addition", **changes):
    """A report of the demo that lacks nothing; `text` is in every place for one."""
    seeds = tuple(SeedStairsRecord(seed=7 + s, order_0=10, order_1=20 + 10 * (s % 2), task=40, in_order=True) for s in range(3))
    values = {
        "verdict": StaircaseVerdict(label=text, text=f"{text} is found: {text}."),
        "steps": STEPS,
        "loss": (4.0, 3.0, 2.0, 1.5, 1.0, 0.5),
        "accuracy": (0.0, 0.1, 0.2, 0.5, 0.96, 1.0),
        "alignment": {"0": (0.1, 0.7, 0.9, 0.8, 0.7, 0.6), "1": (0.0, 0.1, 0.6, 0.7, 0.75, 0.7)},
        "null": {"0": (0.1,) * 6, "1": (0.0,) * 6},
        "spread": {name: (0.05,) * 6 for name in ("loss", "accuracy", "alignment_0", "alignment_1")},
        "stairs": (stair(0), stair(1, onset=20, peak_step=40, peak=0.75, decay=0.05, earliest=20, latest=30, note=text)),
        "stairs_by_seed": seeds,
        "integrity": SeriesIntegrity(),
        "predicted": PredictedStair(exists=True, reason=text, growth_rate=0.0433, steps=24.6, steps_at_slope_1=12.3),
        "maps": (ring(20), ring(20, step=50)),
        "neighbors": (TokenNeighbors(token=text, by_signature=(text, "b", "c"), by_embedding=("c", text, "d")),),
        "beyond_order_0": (BeyondOrderZero(step=20, r2_order_0=0.753, gain=0.045, null=-0.02),),
        "tokens": (TokenGroup(name=text, norm=(0.231,) * 5 + (0.887,), attention=(0.125,) * 5 + (0.156,)),),
        "thresholds": StaircaseThresholds(rise=0.5, stays=2, learned=0.95, share=0.8, own=0.1),
        "settings": StaircaseSettings(
            task=text,
            modulus=20,
            vocabulary=81,
            labels=39,
            model=text,
            width=128,
            gamma=0.8,
            optimizer=text,
            learning_rate=1.0,
            steps=50,
            seeds=(7, 8, 9),
        ),
        "rule": text,
        "source": text,
        "notes": (text,),
        "seconds": 43.0,
    }
    return StaircaseReport(**{**values, **changes})


def track_report(text="model", **changes):
    """A report on one training that lacks nothing but the accuracy."""
    steps = (0, 1, 2, 4, 8, 16, 32, 64, 128)
    values = {
        "verdict": StaircaseVerdict(label=text, text=f"{text} is found: {text}."),
        "steps": steps,
        "loss": tuple(10.0 - i for i in range(9)),
        "accuracy": (None,) * 9,
        "alignment": {"0": (0.0, 0.0, 0.2, 0.4, 0.6, 0.5, 0.4, 0.3, 0.2), "1": (0.0,) * 5 + (0.1, 0.3, 0.4, 0.4), "2": (0.0,) * 9},
        "null": {order: (0.01,) * 9 for order in "012"},
        "spread": {order: (0.02,) * 9 for order in "012"},
        "spearman": {order: (0.123,) * 9 for order in "012"},
        "stairs": (
            stair(0, onset=2, peak_step=8, seeds=0, earliest=None, latest=None),
            stair(1, onset=16, peak_step=64, seeds=0, earliest=None, latest=None),
            stair(2, onset=None, peak_step=0, peak=-0.01, decay=None, seeds=0, earliest=None, latest=None, note=text),
        ),
        "stairs_by_seed": (),
        "integrity": SeriesIntegrity(duplicates=((1, 2),), gaps=((8, 16),), jumps=((32, 64),)),
        "predicted": PredictedStair(exists=False, reason=text),
        "maps": (ring(3, names=(text, "b", "c")),),
        "neighbors": (TokenNeighbors(token=text, by_signature=(text,), by_embedding=()),),
        "gains": (
            OrderGain(step=128, order=1, r2=0.432, gain=0.123, null=-0.004),
            OrderGain(step=128, order=2, r2=None, gain=None, null=None),
        ),
        "norm_frequency": (None, 0.457, 0.3, 0.1, -0.1, -0.2, -0.3, -0.4, -0.577),
        "thresholds": TrackThresholds(rise=0.1, spreads=3.0, stays=3, falls=0.07),
        "settings": TrackSettings(
            orders=(0, 1, 2),
            tokens=201,
            next_tokens=2000,
            contexts=512,
            window=16,
            sketches=256,
            vocabulary=50304,
            corpus_tokens=10_000_000,
            table=text,
            engine=text,
            seed=3,
        ),
        "source": text,
        "notes": (text,),
        "seconds": 731.0,
    }
    return TrackReport(**{**values, **changes})


NOTHING = {
    "verdict": StaircaseVerdict(label="", text=""),
    "steps": (),
    "loss": (),
    "accuracy": (),
    "alignment": {},
    "null": {},
    "spread": {},
    "stairs": (),
    "stairs_by_seed": (),
    "integrity": SeriesIntegrity(),
    "predicted": PredictedStair(exists=False, reason=""),
    "maps": (),
    "neighbors": (),
    "source": "",
    "notes": (),
}


def bare_demo(**changes):
    settings = demo_report().settings.model_copy(update={"seeds": (), "modulus": None})
    return demo_report(**{**NOTHING, "beyond_order_0": (), "tokens": (), "settings": settings, "rule": "undefined", **changes})


def bare_track(**changes):
    settings = track_report().settings.model_copy(update={"orders": (), "contexts": None, "window": None, "sketches": None, "table": ""})
    return track_report(**{**NOTHING, "spearman": {}, "gains": (), "norm_frequency": (), "settings": settings, **changes})
