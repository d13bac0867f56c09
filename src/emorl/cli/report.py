"""emorl report"""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date
from itertools import chain, takewhile
from pathlib import Path
from typing import Literal

import tyro

from emorl.cli.options import Device, check_options, choose_device
from emorl.data import Split
from emorl.errors import UserError
from emorl.evaluation.dci import check_trees
from emorl.files import check_output, make_directory, real_path, write_bytes
from emorl.report.groups import QUICK, Extent
from emorl.report.html import render
from emorl.report.page import build_page
from emorl.runs.run import Run
from emorl.training.console import progress_bar, say
from emorl.types import Progress
from emorl.version import __version__


def report_command(
    runs: tyro.conf.Positional[tuple[str, ...]],
    out: Path,
    images: int | None = None,
    dci: Literal["no", "fast", "exact"] = "no",
    quick: bool = False,
    split: Split = "test",
    device: Device = "auto",
) -> None:
    """Write a page about trained models: scores, the paper's beside them, curves, pictures, settings, commands.

    Args:
        runs: Run directories of trainings, or names of released weights. Those that differ only in their seed are one.
        out: The .html file to write; it holds everything and can be sent around.
        images: Number of scenes to score; all of the split if left out.
        dci: Also measure how disentangled the slots are; "exact" trees take minutes.
        quick: Fewer scenes, and no search for active dimensions.
        split: Which scenes.
        device: auto takes a GPU if there is one.
    """
    if not runs:
        raise UserError("Name at least one run: emorl report RUN... --out report.html")
    check_options(images=images)
    if dci != "no":
        check_trees()
    where = choose_device(device)
    extent = replace(QUICK if quick else Extent(), dci=dci)
    extent = extent if images is None else replace(extent, images=images)
    places = [real_path(run) for run in runs]
    if twice := [run for run, place in zip(runs, places, strict=True) if places.count(place) > 1]:
        raise UserError(f"{twice[0]} is named twice; a report has each run once.")
    opened = [Run.open(run, label=label) for run, label in zip(runs, display_names(runs), strict=True)]
    check_output(out, inputs=[path for run in opened for path in run.inputs])
    for run in opened:
        run.model.to(where)  # a mistake should not wait for the scores
    held_out = [(run, run.scenes(split)) for run in opened]
    command = command_line(runs, out, images=images, dci=dci, split=split, quick=quick)
    footer = f"Made with emorl {__version__} on {date.today().isoformat()}."
    page = build_page(held_out, extent, stage=stage, commands=[command], footer=footer)
    make_directory(out.parent)
    content = render(page).encode()
    write_bytes(out, content)
    say(f"Wrote {out}, {len(content) / 1e6:.1f} MB. Open it in a browser; it needs nothing else.")


def command_line(
    runs: Sequence[str], out: Path, *, images: int | None, dci: str, split: str, quick: bool
) -> str:
    """The command that makes this page again, with the options that are not as usual."""
    options = {"--images": (images, None), "--dci": (dci, "no"), "--split": (split, "test")}
    unusual = [(option, str(value)) for option, (value, usual) in options.items() if value != usual]
    words = ["emorl", "report", *runs, "--out", str(out), *chain.from_iterable(unusual)]
    return shlex.join([*words, *(["--quick"] if quick else [])])


@contextmanager
def stage(title: str) -> Iterator[Progress]:
    """Says what is being done, with a bar on a terminal."""
    say(f"{title} ...")
    with progress_bar(title) as progress:
        yield progress


def display_names(runs: Sequence[str]) -> list[str]:
    """Last parts of paths where these differ, else paths without what all begin and end with."""
    short = [real_path(run).name if Path(run).is_dir() else run for run in runs]
    if len(set(short)) == len(set(runs)):
        return short
    paths = [Path(run).parts for run in runs]
    first, last = leading(paths), leading([path[::-1] for path in paths])
    return ["/".join(path[first : len(path) - last]) or run for run, path in zip(runs, paths, strict=True)]


def leading(paths: Sequence[Sequence[str]]) -> int:
    """How many first parts are the same in all."""
    return sum(1 for _ in takewhile(lambda parts: len(set(parts)) == 1, zip(*paths, strict=False)))
