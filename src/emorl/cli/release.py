"""emorl release"""

from __future__ import annotations

import json
from pathlib import Path

import tyro

from emorl.cli.options import Device, choose_device
from emorl.runs.release import release
from emorl.runs.run import FOLDER, Run


def release_command(
    run: tyro.conf.Positional[Path],
    name: tyro.conf.Positional[str],
    preset: str | None = None,
    folder: Path = FOLDER,
    device: Device = "auto",
) -> None:
    """Put the weights of a run into the package, beside a card that says how they were made and how they score.

    Args:
        run: A run directory.
        name: Of the weights: that of the preset that trained them.
        preset: The preset that trained them, where its name is another.
        folder: Where released weights live.
        device: auto takes a GPU if there is one.
    """
    where, opened = choose_device(device), Run.open(run)
    opened.model.to(where)
    card = release(opened, name, preset, folder=folder)
    print(json.dumps({"name": name, "scores": card["scores"]}, indent=2))
