"""Runs of earlier versions: the one place where old settings and names of weights become today's.

Every difference is one entry below, so that run directories and released weights made at any time can be opened.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from torch import Tensor

Values = dict[str, Any]

# Each takes a run's settings {"model", "data", "train"} as they stand in config.json, changes them in place where they
# are of an earlier version, and leaves today's alone. They are applied in this order.
CONFIG_CHANGES: list[Callable[[Values], None]] = []

# Earlier beginning of the name of a parameter or buffer -> today's, or None for what is no longer kept.
WEIGHT_NAMES: dict[str, str | None] = {}


def upgrade(config: Mapping[str, Any]) -> Values:
    """Returns the settings of a run of any version as today's. Nothing is checked: RunConfig.from_dict does that."""
    values = {name: dict(group) if isinstance(group, Mapping) else group for name, group in config.items()}
    if all(isinstance(group, dict) for group in values.values()):
        for change in CONFIG_CHANGES:
            change(values)
    return values


def upgrade_weights(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns parameters and buffers under today's names, without those that are no longer kept."""
    named = ((upgrade_name(name), tensor) for name, tensor in weights.items())
    return {name: tensor for name, tensor in named if name is not None}


def upgrade_name(name: str) -> str | None:
    """Returns today's name of a parameter or buffer, None if it is no longer kept."""
    for old, new in WEIGHT_NAMES.items():
        if name.startswith(old):
            return None if new is None else new + name.removeprefix(old)
    return name
