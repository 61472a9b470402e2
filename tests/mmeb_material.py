"""A small folder in MMEB's layout: pictures of one color, the four meta tasks, and an encoder that sees mean colors."""

from __future__ import annotations

import io
import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from PIL import Image

from normwise.data.contents import parts_of
from normwise.data.pictures import Picture

COLORS = {"red": (255, 0, 0), "green": (0, 255, 0), "blue": (0, 0, 255), "orange": (255, 153, 0), "purple": (204, 0, 255)}
WORDS = {"red": (1, 0, 0), "green": (0, 1, 0), "blue": (0, 0, 1)}
ASK = "<|image_1|>\nName what is shown"
SHOW = "<|image_1|> Represent the given image."


def row(query, picture, targets):
    texts, pictures = zip(*targets, strict=True)
    return {"qry_text": query, "qry_img_path": picture, "tgt_text": list(texts), "tgt_img_path": list(pictures)}


def classes(picture, right):
    names = {"red": "red", "green": "very green", "blue": "blue"}
    order = [right, *(name for name in names if name != right)]
    return row(ASK, f"shop/{picture}.png", [(names[name], "") for name in order])


def shown(*colors, text=SHOW):
    return [(text, f"shop/{color}.png") for color in colors]


# By hand, cosine: orange (1, .6, 0) has .86 with red and .51 with green; purple (.8, 0, 1) has .62 with red and .78 with blue.
# By dot product "very green" is three times as long: orange has 1 with red and 1.8 with it.
EVAL = {
    "ImageNet-1K": [*(classes(color, color) for color in WORDS), classes("orange", "red"), classes("purple", "red")],
    "OK-VQA": [
        row("<|image_1|>\nWhich color?", "shop/red.png", [("red", ""), ("green", "")]),
        row("<|image_1|>\nWhich color is it?", "shop/blue.png", [("blue", ""), ("green", ""), ("red", "")]),
    ],
    "MSCOCO_t2i": [
        row("Find a picture of a red thing", "", shown("red", "green")),
        row("Find a picture of a green thing", "", shown("blue", "green", "red")),
    ],
    "RefCOCO-Matching": [
        row(
            "<|image_1|> Select the blue part",
            "shop/red.png",
            [(f"{SHOW} the blue part", "shop/red.png"), (f"{SHOW} the green part", "shop/red.png")],
        ),
        row("<|image_1|> Select the red part", "shop/green.png", [(f"{SHOW} red", "shop/green.png"), (f"{SHOW} blue", "shop/green.png")]),
    ],
}
P_AT_1 = {
    "cosine": {"ImageNet-1K": 4 / 5, "OK-VQA": 1.0, "MSCOCO_t2i": 1 / 2, "RefCOCO-Matching": 1.0},
    "dot": {"ImageNet-1K": 3 / 5, "OK-VQA": 1.0, "MSCOCO_t2i": 1 / 2, "RefCOCO-Matching": 1.0},
}

# The same tasks with instructions apart, whose texts join to those above.
INSTRUCT = {
    "ImageNet-1K": [
        one | {"qry_inst": "Name what is shown <|image_1|>", "qry_text": "", "tgt_inst": "Not for targets without a picture:"}
        for one in EVAL["ImageNet-1K"]
    ],
    "MSCOCO_t2i": [
        {
            "qry_inst": "Find a picture of",
            "qry_text": one["qry_text"].removeprefix("Find a picture of "),
            "qry_img_path": "",
            "tgt_inst": SHOW,
            "tgt_text": ["" for _ in one["tgt_text"]],
            "tgt_img_path": one["tgt_img_path"],
        }
        for one in EVAL["MSCOCO_t2i"]
    ],
}

TRAIN = {
    "ImageNet_1K": [
        {
            "qry": ASK,
            "qry_image_path": f"images/shop/{name}.png",
            "pos_text": name,
            "pos_image_path": "",
            "neg_text": other,
            "neg_image_path": "",
        }
        for name, other in (("red", "green"), ("green", "blue"), ("blue", ""))
    ],
    "CIRR": [
        {
            "qry": "<|image_1|> but in green",
            "qry_image_path": "images/shop/red.png",
            "pos_text": None,
            "pos_image_path": "images/shop/green.png",
        },
        {
            "qry": "but in blue",
            "qry_image_path": "images/shop/red.png",
            "pos_text": "<|image_1|>",
            "pos_image_path": "images/shop/blue.png",
        },
    ],
}


def write_pictures(root):
    (root / "images" / "shop").mkdir(parents=True, exist_ok=True)
    for name, color in COLORS.items():
        Image.new("RGB", (4, 3), color).save(root / "images" / "shop" / f"{name}.png")


def write_parquet(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def write_jsonl(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(one) + "\n" for one in rows), encoding="utf-8")
    return path


def write_mmeb(root, subsets, *, split="test"):
    """Pictures and one parquet file for each subset."""
    write_pictures(root)
    for name, rows in subsets.items():
        write_parquet(root / name / f"{split}-00000-of-00001.parquet", rows)
    return root


class ColorEncoder:
    """A picture is its mean color, a text the sum of its color words ("very" makes the next three times as long), both their sum."""

    def __init__(self, name="colors", swap=()):
        self.name, self.swap, self.seen = name, dict(swap), []

    def encode_queries(self, contents, *, batch_size=64, progress=None):
        return self._encode("query", contents)

    def encode_candidates(self, contents, *, batch_size=64, progress=None):
        return self._encode("candidate", contents)

    def _encode(self, role, contents):
        self.seen += [(role, content) for content in contents]
        return np.array([sum(self._part(part) for part in parts_of(content)) for content in contents], dtype=np.float32)

    def _part(self, part):
        if isinstance(part, Picture):
            return np.asarray(Image.open(io.BytesIO(part.encoded()))).reshape(-1, 3).mean(axis=0) / 255
        total, words = np.zeros(3), part.split()
        for before, word in zip(["", *words], words, strict=False):
            color = WORDS.get(self.swap.get(word, word))
            if color is not None:
                total += np.array(color) * (3 if before == "very" else 1)
        return total
