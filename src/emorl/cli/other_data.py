"""Scores on other data than a run was trained on: --data and --path."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

from emorl.data import FOLDER, DataConfig, Split, open_dataset, open_folder, open_stored
from emorl.data.base import SceneDataset
from emorl.data.stored import StoredScenes
from emorl.errors import UserError
from emorl.files import real_path
from emorl.runs.run import Run


def scenes_of(run: Run, *, data: str | None, path: Path | None, split: Split | None) -> SceneDataset:
    """Scenes to score a run on: of its own data, of the same at another `path`, or of other `data`.

    Where no split is asked for, that is test, or all of a folder and of stored scenes that it has not learned from.
    """
    if data is None and path is None:
        return run.scenes(split or "test")
    config = other_data(run, data, path)
    is_whole = split is None and is_unseen(run, config)
    scenes = all_scenes(config) if is_whole else open_dataset(config, split or "test")
    size = run.config.model.image_size
    if scenes.info.image_size != size:
        raise UserError(
            f"{run.name} takes images of {size} pixels a side; {scenes.info.name} has {scenes.info.image_size}."
        )
    return scenes


def other_data(run: Run, name: str | None, path: Path | None) -> DataConfig:
    """The settings of a run's data with another name or place."""
    own = run.config.data
    where = None if path is None else os.path.abspath(path)
    if name in (None, own.name):
        return replace(own, path=where or own.path)
    if name == FOLDER and path is None:
        raise UserError("Say where the images are: --data folder --path FOLDER")
    # What was said of the run's own data, such as the sizes of its splits, does not hold for others.
    return DataConfig(str(name), path=where, image_size=run.config.model.image_size)


def is_unseen(run: Run, config: DataConfig) -> bool:
    """Whether a run cannot have learned from any scene of a folder or of stored scenes."""
    own = run.config.data
    if config.path is None:
        return False
    if config.name == FOLDER:
        if own.name != FOLDER:
            return True
        if own.path is None or not os.path.exists(own.path):  # the same pictures may have been moved
            return False
        places = [real_path(path) for path in (own.path, config.path)]
        return not (places[0].is_relative_to(places[1]) or places[1].is_relative_to(places[0]))
    origin = StoredScenes(Path(config.path)).info.origin
    is_published = not origin.startswith("seed")  # generated ones are in splits, whatever they are called
    return is_published and not (own.path and own.name == config.name)


def all_scenes(config: DataConfig) -> SceneDataset:
    """All scenes of a folder or of stored scenes."""
    return open_folder(config, whole=True) if config.name == FOLDER else open_stored(config)
