"""Which preset a run is closest to: it names the system, tells what was changed, and how to train the run again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from emorl.report.published import SYSTEMS
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run

Settings = Mapping[str, Any]


def flat(settings: Settings, path: str = "") -> Iterator[tuple[str, Any]]:
    """Nested settings as (dotted name, value)."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def changed(one: Settings, other: Settings) -> list[str]:
    """Dotted names of the settings that differ."""
    mine, theirs = dict(flat(one)), dict(flat(other))
    return [name for name in {**mine, **theirs} if mine.get(name) != theirs.get(name)]


def nearest_preset(config: RunConfig) -> str | None:
    """The preset of this kind of model and data that differs in the fewest settings."""
    own = config.to_dict()
    same = [
        name
        for name, preset in PRESETS.items()
        if type(preset.model) is type(config.model) and preset.data.name == config.data.name
    ]
    return min(same, key=lambda name: len(changed(own, PRESETS[name].to_dict())), default=None)


def system_of(config: RunConfig) -> str:
    """The system by its name in presets, that of the preset whose model differs least.

    It is finer than the kind of model: GENESIS and GENESIS-S are one class.
    """
    own = config.to_dict()["model"]
    same = {name: preset for name, preset in PRESETS.items() if type(preset.model) is type(config.model)}
    nearest = min(
        same, key=lambda name: len(changed(own, same[name].to_dict()["model"])), default=own["kind"]
    )
    return str(nearest).split("/")[0]


def title_of_system(config: RunConfig) -> str:
    """The system as it is called in print."""
    system = system_of(config)
    return SYSTEMS.get(system, system)


def train_command(run: Run) -> str:
    """What trains this run again: its preset with options, or its config.json where too much differs."""
    if "command" in run.card:
        return str(run.card["command"])
    preset = nearest_preset(run.config)
    own = dict(flat(run.config.to_dict()))
    differing = [] if preset is None else changed(run.config.to_dict(), PRESETS[preset].to_dict())
    can_be_options = all(is_option(own.get(name)) for name in differing) and len(differing) <= 8
    if preset is None or not can_be_options:
        return shlex.join(["emorl", "train", f"{run.name}/config.json", "--out", f"{run.name}-again"])
    words = ["emorl", "train", preset, "--out", run.name]
    for name in differing:
        words += [f"--{name.replace('_', '-')}", *as_words(own[name])]
    return shlex.join(words)


def is_option(value: Any) -> bool:
    """Whether a value can be written on a command line: not None, nor a flag that may be on by default."""
    return isinstance(value, int | float | str | list) and not isinstance(value, bool)


def as_words(value: Any) -> list[str]:
    """A setting as words of a command line; pairs of pairs are written one after the other."""
    return [word for item in value for word in as_words(item)] if isinstance(value, list) else [str(value)]
