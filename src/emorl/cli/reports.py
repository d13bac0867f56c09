"""emorl figure and emorl report"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from importlib.metadata import version
from itertools import takewhile
from pathlib import Path
from typing import Any, Literal

import tyro

from emorl.cli.console import progress_bar, say
from emorl.config import read_json
from emorl.data import Split, open_dataset
from emorl.errors import UserError
from emorl.files import make_directory, write_bytes
from emorl.models import kind_of
from emorl.report.html import render
from emorl.report.page import build_page
from emorl.report.runs import QUICK, Extent, Run, flat
from emorl.runs.config import RunConfig
from emorl.runs.directory import read_metrics
from emorl.runs.presets import PRESETS
from emorl.runs.run import card_of, load_with_config


def report_command(
    runs: tyro.conf.Positional[tuple[str, ...]],
    out: Path,
    images: int | None = None,
    dci: Literal["no", "fast", "exact"] = "no",
    quick: bool = False,
    split: Split = "test",
) -> None:
    """Write a page about trained models: scores, the paper's beside them, curves, pictures, settings, commands.

    Args:
        runs: Run directories of trainings, or names of released weights. Those that differ only in their seed are one.
        out: The .html file to write; it holds everything and can be sent around.
        images: Number of scenes to score; all of the split if left out.
        dci: Also measure how disentangled the slots are; "exact" trees take minutes.
        quick: Fewer scenes, and no search for active dimensions.
        split: Which scenes.
    """
    if not runs:
        raise UserError("Name at least one run: emorl report RUN... --out report.html")
    if images is not None and images < 1:
        raise UserError(f"--images must be at least 1, not {images}.")
    extent = replace(QUICK if quick else Extent(), dci=dci)
    extent = extent if images is None else replace(extent, images=images)
    places = [Path(run).resolve() for run in runs]
    if twice := [run for run, place in zip(runs, places, strict=True) if places.count(place) > 1]:
        raise UserError(f"{twice[0]} is named twice; a report has each run once.")
    opened = [open_run(run, split) for run in runs]  # all of them first: a mistake should not wait
    opened = [replace(run, name=name) for run, name in zip(opened, display_names(runs), strict=True)]
    options = [*(["--images", str(images)] if images else []), *(["--dci", dci] if dci != "no" else [])]
    command = shlex.join(
        ["emorl", "report", *runs, "--out", str(out), *options, *(["--quick"] if quick else [])]
    )
    footer = f"Made with emorl {version('emorl')} on {date.today().isoformat()}."
    page = build_page(opened, extent, stage=stage, commands=[command], footer=footer)
    make_directory(out.parent)
    content = render(page).encode()
    write_bytes(out, content)
    say(f"Wrote {out}, {len(content) / 1e6:.1f} MB. Open it in a browser; it needs nothing else.")


@contextmanager
def stage(title: str) -> Iterator[Callable[[int, int], None]]:
    """Says what is being done, with a bar on a terminal."""
    say(f"{title} ...")
    with progress_bar(title) as progress:
        yield progress


def display_names(runs: Sequence[str]) -> list[str]:
    """Last parts of paths where these differ, else paths without what all begin and end with."""
    short = [Path(run).resolve().name if Path(run).is_dir() else run for run in runs]
    if len(set(short)) == len(set(runs)):
        return short
    paths = [Path(run).parts for run in runs]
    first, last = leading(paths), leading([path[::-1] for path in paths])
    return ["/".join(path[first : len(path) - last]) or run for run, path in zip(runs, paths, strict=True)]


def leading(paths: Sequence[Sequence[str]]) -> int:
    """How many first parts are the same in all."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))


def open_run(name: str, split: Split) -> Run:
    """A run, by directory or by the name of released weights, with all that is known of it."""
    model, config = load_with_config(name)
    settings = config.to_dict()
    preset = nearest_preset(config)
    usual = {} if preset is None else PRESETS[preset].to_dict()
    run = Run(
        name=name,
        kind=kind_of(config.model),
        model=model,
        scenes=open_dataset(config.data, split),
        settings=settings,
        preset=preset,
        usual=usual,
    )
    directory = Path(name)
    if not directory.is_dir():
        card = card_of(name)
        commands = [card["command"]] if "command" in card else []
        minutes = card.get("cpu_minutes")
        return replace(run, environment=card.get("environment", {}), cpu_minutes=minutes, commands=commands)
    metrics = read_metrics(directory)
    seconds = [record["cpu_seconds"] for record in metrics if record.get("cpu_seconds") is not None]
    environment = directory / "environment.json"
    return replace(
        run,
        metrics=metrics,
        environment=read_json(environment) if environment.exists() else {},
        cpu_minutes=seconds[-1] / 60 if seconds else None,
        commands=[train_command_of(run)],
    )


def nearest_preset(config: RunConfig) -> str | None:
    """The preset of this kind of model and data that differs in the fewest settings."""
    own = dict(flat(config.to_dict()))

    def distance(name: str) -> int:
        other = dict(flat(PRESETS[name].to_dict()))
        return sum(own.get(key) != other.get(key) for key in {**own, **other})

    same = [
        name
        for name, preset in PRESETS.items()
        if type(preset.model) is type(config.model) and preset.data.name == config.data.name
    ]
    return min(same, key=distance, default=None)


def train_command_of(run: Run) -> str:
    """What trains this again: the preset with what differs as options, if that can be said in a line."""
    own, usual = dict(flat(run.settings)), dict(flat(run.usual))
    differing = {name: value for name, value in own.items() if usual.get(name) != value}
    is_sayable = all(can_be_said(value) for value in differing.values()) and len(differing) <= 8
    if run.preset is None or not is_sayable:
        return shlex.join(["emorl", "train", f"{run.name}/config.json", "--out", f"{run.name}-again"])
    words = ["emorl", "train", run.preset, "--out", run.name]
    for name, value in differing.items():
        words += [f"--{name.replace('_', '-')}", *said(value)]
    return shlex.join(words)


def can_be_said(value: Any) -> bool:
    return isinstance(value, int | float | str | list) and not isinstance(value, bool)


def said(value: Any) -> list[str]:
    """A setting as words of a command line; pairs of pairs are written one after the other."""
    return [word for item in value for word in said(item)] if isinstance(value, list) else [str(value)]
