"""Which preset a run is closest to: it names the system, tells what was changed, and how to train the run again."""

from __future__ import annotations

import shlex
from typing import Any

from emorl.report.paper import SYSTEMS
from emorl.runs.config import RunConfig, differing
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run


def nearest_preset(config: RunConfig) -> str | None:
    """The preset of this kind of model and data that differs in the fewest settings."""
    own = config.flat()
    same = [name for name in presets_like(config) if PRESETS[name].data.name == config.data.name]
    return min(same, key=lambda name: len(differing(own, PRESETS[name].flat())), default=None)


def system_of(config: RunConfig) -> str:
    """The system by its name in presets, that of the preset whose model differs least.

    It is finer than the kind of model: GENESIS and GENESIS-S are one class.
    """
    own = model_settings(config)
    nearest = min(
        presets_like(config),
        key=lambda name: len(differing(own, model_settings(PRESETS[name]))),
        default=str(own["model.kind"]),
    )
    return nearest.split("/")[0]


def presets_like(config: RunConfig) -> list[str]:
    """The names of the presets of this kind of model."""
    return [name for name, preset in PRESETS.items() if type(preset.model) is type(config.model)]


def model_settings(config: RunConfig) -> dict[str, Any]:
    """The settings of the model alone, by dotted name."""
    return {name: value for name, value in config.flat().items() if name.startswith("model.")}


def title_of_system(config: RunConfig) -> str:
    """The system as it is called in print."""
    system = system_of(config)
    return SYSTEMS.get(system, system)


def training_command(run: Run) -> str:
    """What trains this run again: its preset with options, or its config.json where too much differs."""
    if "command" in run.card:
        return str(run.card["command"])
    preset = nearest_preset(run.config)
    own = run.config.flat()
    changed = [] if preset is None else differing(own, PRESETS[preset].flat())
    can_be_options = all(is_option(own.get(name)) for name in changed) and len(changed) <= 8
    if preset is None or not can_be_options:
        return shlex.join(["emorl", "train", f"{run.name}/config.json", "--out", f"{run.name}-again"])
    words = ["emorl", "train", preset, "--out", run.name]
    for name in changed:
        words += [f"--{name.replace('_', '-')}", *as_words(own[name])]
    return shlex.join(words)


def is_option(value: Any) -> bool:
    """Whether a value can be written on a command line: not None, nor a flag that may be on by default."""
    return isinstance(value, int | float | str | list) and not isinstance(value, bool)


def as_words(value: Any) -> list[str]:
    """A setting as words of a command line; pairs of pairs are written one after the other."""
    return [word for item in value for word in as_words(item)] if isinstance(value, list) else [str(value)]
