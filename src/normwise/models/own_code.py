"""Program code that a model's files bring along: found before anything is opened, run only when that is asked for."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sentence_transformers.util import load_file_path
from transformers import CONFIG_MAPPING

from normwise.core.errors import InputError
from normwise.core.files import read_json

_LIBRARY = "sentence_transformers."
_TORCH = "torch."
_CLASSES = ("AutoConfig", "AutoModel")


def own_code(target: str, *, revision: str | None = None) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Name the classes outside the libraries that a model's files ask for.

    Args:
        target: folder or hub id.
        revision: of a hub id.

    Returns:
        (needed, replaced): those without which it cannot be opened, and those in whose place transformers has a class of
        its own under the same model type, which may compute something else.
    """
    modules = _modules(target, revision)
    needed = [kind for kind in modules.values() if not kind.startswith(_LIBRARY)]
    replaced: list[str] = []
    for folder, kind in {"": "", **modules}.items():
        settings = _read(target, f"{folder}/config.json".lstrip("/"), revision)
        if not isinstance(settings, Mapping):
            continue
        activation = settings.get("activation_function")
        # Without the flag, the library puts a tanh in the place of such a function.
        if kind.endswith(".Dense") and isinstance(activation, str) and not activation.startswith(_TORCH):
            needed.append(activation)
        classes = _auto_classes(settings)
        (replaced if settings.get("model_type") in CONFIG_MAPPING else needed).extend(classes)
    return tuple(dict.fromkeys(needed)), tuple(dict.fromkeys(replaced))


def refuse_own_code(name: str, target: str, classes: tuple[str, ...], *, because: str) -> InputError:
    """The error for a model whose code was not run: what it is, what running it means, and how to allow it.

    Example:
        >>> str(refuse_own_code("a/b", "a/b", ("code.Model",), because="cannot be opened without it"))[:74]
        "model 'a/b' brings program code of its own (code.Model) and cannot be open"
    """
    place = os.path.abspath(target) if os.path.isdir(target) else f"https://huggingface.co/{target}/tree/main"
    return InputError(
        f"model {name!r} brings program code of its own ({', '.join(classes)}) and {because}. It was not run: it could do on this machine "
        f"whatever you can, read and delete your files included. Read it ({place}); if you trust it, set trust_remote_code to true "
        "(--trust-remote-code), with a fixed revision for a hub id; or choose a version of the model that transformers reads by itself"
    )


def _modules(target: str, revision: str | None) -> dict[str, str]:
    """The class of each module by its folder, those inside a router among them."""
    listed = _read(target, "modules.json", revision)
    modules = [module for module in listed if isinstance(module, Mapping)] if isinstance(listed, list) else []
    found = {str(module.get("path", "")): str(module.get("type", "")) for module in modules}
    for folder in list(found):
        # A router's file of an older version is named like that of a transformer.
        for name in ("router_config.json", "config.json"):
            routed = _read(target, f"{folder}/{name}".lstrip("/"), revision)
            types = routed.get("types") if isinstance(routed, Mapping) else None
            if isinstance(types, Mapping):
                found |= {f"{folder}/{inner}".lstrip("/"): str(kind) for inner, kind in types.items()}
    return found


def _read(target: str, file: str, revision: str | None) -> Any:
    if os.path.isdir(target):
        path = Path(target, file)
        return read_json(path) if path.is_file() else None
    try:
        found = load_file_path(target, file, revision=revision)
        return None if found is None else read_json(Path(found))
    except Exception:
        # A hub id that cannot be read is told by whoever opens it.
        return None


def _auto_classes(settings: Mapping[str, Any]) -> list[str]:
    listed = settings.get("auto_map")
    if not isinstance(listed, Mapping):
        return []
    return [str(listed[key]) for key in _CLASSES if listed.get(key)]
