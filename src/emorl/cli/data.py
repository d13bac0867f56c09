"""emorl data preview | store | convert"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import tyro

from emorl.cli.other_data import all_scenes
from emorl.data import DATASETS, FOLDER, LARGEST_IMAGE, MOST_SCENES, DataConfig, Split, open_dataset
from emorl.data.convert import convert
from emorl.data.fit import Fit
from emorl.data.storing import store
from emorl.errors import UserError, check_range, check_seed, nearest
from emorl.plots.files import check_picture_file, save_picture
from emorl.plots.scenes import scene_grid
from emorl.training.console import progress_bar, say

MOST_DRAWN = 1000  # scenes of a preview; a picture of more is too large to look at
MOST_WORKERS = 256


def preview_command(
    name: tyro.conf.Positional[str],
    out: Path,
    path: Path | None = None,
    split: Split | None = None,
    count: int = 8,
    size: int = 64,
    fit: Fit = "crop",
    seed: int = 0,
) -> None:
    """Draw the first scenes of a data set with their true segmentation: what a model would learn from and be scored by.

    Args:
        name: One of the data sets of `emorl list`, or folder.
        out: The PNG to write; a file that emorl has not written is not overwritten.
        path: Where the images of a folder are, or stored scenes.
        split: Which scenes; train if left out, or all of a folder and of stored scenes.
        count: How many scenes to draw.
        size: Of folder: the side of the square images, in pixels.
        fit: Of folder: how they are made square.
        seed: Of the generator; of folder, which images are in which split.
    """
    check_range("--count", count, 1, MOST_DRAWN)
    check_seed("--seed", seed)
    check_range("--size", size, 1, LARGEST_IMAGE)
    if name == FOLDER and path is None:
        raise UserError("Say where the images are: emorl data preview folder --path FOLDER")
    check_picture_file(out, inputs=[] if path is None else [path])
    where = None if path is None else str(path)
    config = DataConfig(name, path=where, seed=seed, image_size=size, fit=fit)
    scenes = (
        all_scenes(config) if path is not None and split is None else open_dataset(config, split or "train")
    )
    save_picture(scene_grid(scenes, count), out)
    say(f"Drew {out}: image and segmentation of {min(count, len(scenes))} scenes.")


def store_command(
    name: tyro.conf.Positional[str],
    out: Path,
    count: int = 60_640,
    seed: int = 0,
    workers: int = os.cpu_count() or 1,
) -> None:
    """Make scenes once and keep them, for --data.path. Can be interrupted and run again.

    Args:
        name: One of the data sets of `emorl list`.
        out: The folder to write.
        count: How many scenes; the default holds all splits.
        seed: Of the generator.
        workers: Processes; their number does not change the result.
    """
    if name not in DATASETS:
        raise UserError(f"There is no data set {name!r}{nearest(name, DATASETS)}")
    check_range("--count", count, 1, MOST_SCENES)
    check_range("--workers", workers, 1, MOST_WORKERS)
    dataset = DATASETS[name](seed=check_seed("--seed", seed), length=count)
    with progress_bar("storing") as progress:
        store(dataset, out, workers=workers, progress=progress)
    say(f"Stored {count} scenes. Use them with --data.path {out}")


def convert_command(
    file: tyro.conf.Positional[Path],
    name: Annotated[str, tyro.conf.arg(name="as")],
    out: Path,
    limit: int | None = None,
    group: str | None = None,
) -> None:
    """Turn a published file into stored scenes, for --data.path.

    Args:
        file: A .tfrecords file of DeepMind's multi-object data sets, or an .h5 file of EfficientMORL's authors.
        name: Which data set it is: tetrominoes, multi-dsprites, clevr6, clevr10, objects-room, ...
        out: The folder to write.
        limit: Stop after so many scenes.
        group: Of an .h5 file: train, val or test. Needed only if there are several.
    """
    if limit is not None:
        check_range("--limit", limit, 1, MOST_SCENES)
    with progress_bar("converting") as progress:
        count = convert(file, name, out, limit=limit, group=group, progress=progress)
    say(f"Stored {count} scenes. Use them with --data.name {name} --data.path {out}")


def data_command() -> None:
    """Look at scenes (preview), make them once and keep them (store), or read published files (convert)."""
