"""The settings of a set: a name alone, or the [data] table of a training config, so that every verb reads what training read."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from normwise.core.config import DataConfig
from normwise.core.config_file import read_config_file
from normwise.core.errors import InputError
from normwise.data.opening import kind_of, user_path

CONFIGS = (".toml", ".yaml", ".yml", ".json")


def is_training_config(name: str | Path) -> bool:
    """Whether a name is a config that says more than [data]: one that a model was trained by, which has seen its training rows.

    Raises:
        InputError: a config file that cannot be read.
    """
    path = user_path(str(name), what="data")
    if path.suffix.lower() not in CONFIGS or kind_of(path) != "file":
        return False
    return bool({"arms", "model", "seeds"} & set(read_config_file(path)))


def data_settings(name: str | Path, *, source: str, **more: Any) -> DataConfig:
    """The settings that a name stands for.

    Args:
        name: as `DataConfig.name`; or a training config, whose [data] table is taken: its image root, background,
            instructions, files of dev and test, and cuts.
        source: what messages call the caller.
        more: settings of the caller, which stand above those of the file; None is none.

    Raises:
        InputError: a config without a [data] table, or a setting that is wrong.
    """
    given = {key: value for key, value in more.items() if value is not None}
    path = user_path(str(name), what="data")
    if path.suffix.lower() not in CONFIGS or kind_of(path) != "file":
        return DataConfig.read({"name": str(name), **given}, source=source)
    table = read_config_file(path).get("data")
    if not isinstance(table, Mapping):
        raise InputError(f"{path} is a config without a [data] table: give a training config, or the data themselves")
    return DataConfig.read({**table, **given}, source=f"{path}, data")
