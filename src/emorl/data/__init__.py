"""Scenes: DATASETS by name, and open_dataset(config, split)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal

from emorl.data.base import DatasetInfo, SceneDataset, SceneRange
from emorl.data.sprites import MultiDSprites
from emorl.data.stored import StoredScenes
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError, check_numbers, nearest

__all__ = ["DATASETS", "DataConfig", "DatasetInfo", "SceneDataset", "Split", "open_dataset"]

Split = Literal["train", "test", "validation"]
SPLITS: tuple[Split, ...] = ("train", "test", "validation")

DATASETS: dict[str, Callable[..., SceneDataset]] = {
    "tetrominoes": Tetrominoes,
    "multi-dsprites": MultiDSprites,
    "multi-dsprites-binarized": partial(MultiDSprites, "binarized"),
    "multi-dsprites-colored": partial(MultiDSprites, "colored"),
    "multi-dsprites-textured": partial(MultiDSprites, "textured"),
}


@dataclass(frozen=True)
class DataConfig:
    """Which scenes to learn from and to be judged on."""

    name: str = "tetrominoes"  # one of `emorl list`
    path: str | None = None  # a folder written by `emorl data store`; None makes scenes as they are asked for
    seed: int = 0  # of the generated scenes
    train_size: int = 60_000  # scenes 0 .. train_size - 1
    test_size: int = 320  # the next ones, as in the paper
    validation_size: int = 320  # the ones after those, watched while training

    def __post_init__(self) -> None:
        check_numbers("data", self, seed=0, train_size=1, test_size=1, validation_size=1)


def open_dataset(config: DataConfig, split: Split) -> SceneDataset:
    """Returns the scenes of one split; splits are disjoint ranges of one endless sequence."""
    if split not in SPLITS:
        raise UserError(f"There is no split {split!r}{nearest(split, SPLITS)}")
    if config.path is None and config.name not in DATASETS:
        raise UserError(f"There is no data set {config.name!r}{nearest(config.name, DATASETS)}")
    sizes = {"train": config.train_size, "test": config.test_size, "validation": config.validation_size}
    start = sum(sizes[before] for before in SPLITS[: SPLITS.index(split)])
    length = start + sizes[split]
    if config.path is None:
        scenes: SceneDataset = DATASETS[config.name](seed=config.seed, length=length)
    else:
        scenes = StoredScenes(Path(config.path))
        if scenes.info.name != config.name:
            raise UserError(f"{config.path} holds {scenes.info.name} scenes, not {config.name}.")
        if len(scenes) < length:
            raise UserError(
                f"{config.path} holds {len(scenes)} scenes; the {split} split is scenes {start} to {length - 1}. "
                f"Store more (emorl data store {config.name} --count {length}) or lower the sizes of the splits."
            )
    return SceneRange(scenes, start, length)
