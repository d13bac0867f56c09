"""Scenes: DATASETS by name, and open_dataset(config, split)."""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal

from emorl.data.base import DatasetInfo, SceneDataset, SceneRange
from emorl.data.clevr import Clevr
from emorl.data.fit import Fit
from emorl.data.folder import FolderScenes
from emorl.data.sprites import MultiDSprites
from emorl.data.stored import StoredScenes
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError, check_range, check_seed, nearest

Split = Literal["train", "test", "validation"]
SPLITS: tuple[Split, ...] = ("train", "test", "validation")

MOST_SCENES = 100_000_000  # of a split: the shuffled order of more would not fit into memory
LARGEST_IMAGE = 4096  # side, in pixels

FOLDER = "folder"  # the name of the data set that is a folder of the user's own images
DATASETS: dict[str, Callable[..., SceneDataset]] = {
    "tetrominoes": Tetrominoes,
    "tetrominoes-crowded": partial(Tetrominoes, 5),
    "multi-dsprites": MultiDSprites,
    "multi-dsprites-binarized": partial(MultiDSprites, "binarized"),
    "multi-dsprites-colored": partial(MultiDSprites, "colored"),
    "multi-dsprites-textured": partial(MultiDSprites, "textured"),
    "multi-dsprites-crowded": partial(MultiDSprites, "crowded"),
    "clevr6": partial(Clevr, (3, 6), name="clevr6"),
    "clevr10": partial(Clevr, (7, 10), name="clevr10"),
    "clevr6-fast": partial(Clevr, (3, 6), name="clevr6-fast", quality="fast"),
    "clevr10-fast": partial(Clevr, (7, 10), name="clevr10-fast", quality="fast"),
}


def info_of(name: str) -> DatasetInfo:
    """Returns the info of the data set `name` without making its scenes; for other names it holds only the name."""
    if name in DATASETS:
        info = DATASETS[name](length=1).info
        return info if info.title else replace(info, title=name)
    return DatasetInfo(name, 0, 0, {}, title=name)


@dataclass(frozen=True)
class DataConfig:
    """Which scenes to learn from and to be judged on."""

    name: str = "tetrominoes"  # one of `emorl list`
    path: str | None = None  # of stored scenes, or of images for "folder"; None makes scenes when asked for
    seed: int = 0  # of the generated scenes
    train_size: int | None = None  # scenes 0 .. train_size - 1; as in the paper if left out
    test_size: int = 320  # the next ones, as in the paper
    validation_size: int = 320  # the ones after those, watched while training
    image_size: int = 64  # of "folder": images are made square and resized to this side
    fit: Fit = "crop"  # of "folder": how they are made square; crop cuts, pad adds a margin, stretch distorts
    skip_damaged: bool = False  # of "folder": leave images out that cannot be read

    def __post_init__(self) -> None:
        if not isinstance(self.name, str):
            raise UserError(f"data.name must name a data set, not {reprlib.repr(self.name)}.")
        if isinstance(self.path, Path):
            object.__setattr__(self, "path", str(self.path))
        if self.train_size is None:
            object.__setattr__(self, "train_size", info_of(self.name).train_size)
        check_seed("data.seed", self.seed)
        check_range("data.image_size", self.image_size, 1, LARGEST_IMAGE)
        for name in ("train_size", "test_size", "validation_size"):
            check_range(f"data.{name}", getattr(self, name), 1, MOST_SCENES)


def open_dataset(config: DataConfig | str, split: Split = "train") -> SceneDataset:
    """Returns the scenes of one split; splits are disjoint ranges of one sequence. A data set's name stands for its
    usual settings.
    """
    config = DataConfig(config) if isinstance(config, str) else config
    if not isinstance(config, DataConfig):
        raise UserError(f"Data is told by a DataConfig or a data set's name, not by {reprlib.repr(config)}.")
    if split not in SPLITS:
        raise UserError(f"There is no split {split!r}{nearest(str(split), SPLITS)}")
    if config.name == FOLDER:
        images = open_folder(config)
        return SceneRange(images, *range_of(split, images.sizes))
    sizes = {"train": config.train_size or 0, "test": config.test_size, "validation": config.validation_size}
    start, stop = range_of(split, sizes)
    if config.path is not None:
        scenes = open_stored(config)
        if len(scenes) < stop:
            raise UserError(
                f"{config.path} holds {len(scenes)} scenes; the {split} split is scenes {start} to {stop - 1}. "
                f"Store more (emorl data store {config.name} --count {stop}) or lower the sizes of the splits."
            )
        return SceneRange(scenes, start, stop)
    if config.name not in DATASETS:
        raise UserError(f"There is no data set {config.name!r}{nearest(config.name, [*DATASETS, FOLDER])}")
    return SceneRange(DATASETS[config.name](seed=config.seed, length=stop), start, stop)


def range_of(split: Split, sizes: Mapping[str, int]) -> tuple[int, int]:
    """Returns (start, stop) of a split, given the number of scenes in each split."""
    start = sum(sizes[before] for before in SPLITS[: SPLITS.index(split)])
    return start, start + sizes[split]


def open_folder(config: DataConfig, *, whole: bool = False) -> FolderScenes:
    """Returns the images of the folder `config.path`; raises UserError if none is given."""
    if config.path is None:
        raise UserError(
            "Say where the images are: --data.path FOLDER, or --path of commands that do not train."
        )
    return FolderScenes(
        Path(config.path),
        size=config.image_size,
        seed=config.seed,
        fit=config.fit,
        skip_damaged=config.skip_damaged,
        whole=whole,
    )


def open_stored(config: DataConfig) -> StoredScenes:
    """Returns the stored scenes at `config.path`; raises UserError if they are of another data set."""
    scenes = StoredScenes(Path(config.path or ""))
    if scenes.info.name != config.name:
        raise UserError(f"{config.path} holds {scenes.info.name} scenes, not {config.name}.")
    return scenes
