"""emorl release"""

from __future__ import annotations

import json
from pathlib import Path

import tyro

from emorl.runs.release import release
from emorl.runs.run import FOLDER, Run


def release_command(
    run: tyro.conf.Positional[Path],
    name: tyro.conf.Positional[str],
    preset: str,
    folder: Path = FOLDER,
) -> None:
    """Put the weights of a run into the package, beside a card that says how they were made and how they score.

    Args:
        run: A run directory.
        name: Of the weights: model/data set.
        preset: The preset that trained it.
        folder: Where released weights live.
    """
    card = release(Run.open(run), name, preset, folder=folder)
    print(json.dumps({key: card[key] for key in ("name", "scores", "scores_without_refinement")}, indent=2))
