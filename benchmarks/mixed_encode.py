"""One call with texts, pictures and text + picture in random order against the sum of three calls, one for each kind.

Claim: at most 1.1 times, for a dual encoder (two towers: text + picture is the sum of two vectors) and for a tiny Qwen2-VL with random
weights (text and picture in one pass). The two sides take turns (A B A B ...) on the same contents. A mixed call that drew batches in
the order of its contents would split them by kind or refuse them; this one sorts them and restores the order.

Run: python benchmarks/mixed_encode.py [--rounds 7] [--each 64] [--batch 32]
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rounds import claim, jpeg_picture, machine

from normwise.core.config import ModelConfig
from normwise.core.files import write_json
from normwise.data.contents import Content, Interleaved
from normwise.data.pictures import Picture
from normwise.models.encoder import Encoder
from normwise.models.loading import load_base, load_plain

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "models"))
from tiny_picture_families import save_picture_family  # pyright: ignore[reportMissingImports]

RESULTS = Path(__file__).parent / "results" / "mixed_encode.json"
BOUND = 1.1
SIDE = 128
WORDS = "time year people way day man thing woman life child world school state family student group country problem hand part".split()


def contents(each: int) -> list[list[Content]]:
    """As many texts, pictures and pairs of both."""
    generator = np.random.default_rng(0)

    def text() -> str:
        return " ".join(generator.choice(WORDS, size=12))

    def picture(number: int) -> Picture:
        return jpeg_picture(generator.integers(0, 256, (SIDE, SIDE, 3), dtype=np.uint8), name=f"picture {number}")

    pairs: list[Content] = [Interleaved((picture(number), text())) for number in range(each)]
    return [[text() for _ in range(each)], [picture(each + number) for number in range(each)], pairs]


def models() -> dict[str, Encoder]:
    dual = load_base(ModelConfig.read({"layers": 2, "max_tokens": 32, "vision": {"dimensions": 128}}), device="cpu")
    with tempfile.TemporaryDirectory() as folder:
        qwen = load_plain(str(save_picture_family("qwen2-vl", Path(folder), template="pace")), device="cpu").model
    return {"the dual encoder (2 layers, EfficientNet-Lite0, 96 px)": Encoder(dual), "a tiny Qwen2-VL (random weights)": Encoder(qwen)}


def seconds(encoder: Encoder, calls: Sequence[Sequence[Content]], batch: int) -> float:
    started = time.perf_counter()
    for call in calls:
        encoder.encode_candidates(call, batch_size=batch, progress=False)
    return time.perf_counter() - started


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rounds", 7), ("each", 64), ("batch", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    kinds = contents(options.each)
    flat = [content for kind in kinds for content in kind]
    order = np.random.default_rng(1).permutation(len(flat))
    mixed = [flat[row] for row in order]
    claims = []
    for name, encoder in models().items():
        apart = np.concatenate([encoder.encode_candidates(kind, batch_size=options.batch) for kind in kinds])[order]
        together = encoder.encode_candidates(mixed, batch_size=options.batch)
        difference = float(np.abs(apart - together).max())
        rounds = [(seconds(encoder, [mixed], options.batch), seconds(encoder, kinds, options.batch)) for _ in range(options.rounds)]
        ratios = [one / three for one, three in rounds]
        claims.append(
            claim(
                f"one mixed call of {name} takes at most 1.1 times what its kinds take apart",
                ratios,
                bound=BOUND,
                at_most=True,
                note=f"{len(flat)} contents, a third of each kind; largest difference of a coordinate {difference:.1g}",
                seconds=rounds,
            )
        )
        print(claims[-1], flush=True)
    write_json(RESULTS, {"machine": machine(), "claims": claims, "settings": vars(options)})


if __name__ == "__main__":
    main()
