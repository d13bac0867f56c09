"""SceneDataset: what every source of scenes looks like to training and evaluation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch

from emorl.types import Scene

FactorKind = Literal["discrete", "continuous"]
Array = np.ndarray[Any, np.dtype[Any]]
Arrays = dict[str, Array]  # "image" (H, W, 3) uint8, "segmentation" (H, W) uint8, and a row for each factor


@dataclass(frozen=True)
class DatasetInfo:
    """What is known of all scenes of a dataset."""

    name: str
    image_size: int
    max_objects: int
    factors: Mapping[str, FactorKind]
    description: str = ""
    origin: str = ""  # what the scenes are a function of, e.g. "seed 0"
    has_masks: bool = True  # whether segmentations are known; where they are not, they are all background
    title: str = ""  # its name in tables and figures
    train_size: int = 60_000  # scenes to learn from, if not said otherwise; the paper's number


class SceneDataset(ABC):
    """A finite sequence of scenes. Subclasses make numpy arrays (`arrays`); indexing returns tensors."""

    info: DatasetInfo
    names: Sequence[str] = ()  # of the files that the scenes come from, one each, if they come from files
    chunk: int = 1000  # scenes that a process stores at a time; an interruption loses an unfinished chunk

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def arrays(self, index: int) -> Arrays:
        """Returns scene `index` as 8-bit image and segmentation, and factors."""

    def __getitem__(self, index: int) -> Scene:
        if not 0 <= index < len(self):
            raise IndexError(f"scene {index} of {len(self)}")
        arrays = self.arrays(index)
        image = torch.from_numpy(np.ascontiguousarray(arrays["image"].transpose(2, 0, 1))).float().div_(255)
        segmentation = torch.from_numpy(arrays["segmentation"].astype(np.int64))
        factors = {name: torch.from_numpy(np.array(arrays[name])) for name in self.info.factors}
        full = arrays.get("segmentation_full")
        return Scene(image, segmentation, factors, None if full is None else torch.from_numpy(np.array(full)))


class SceneRange(SceneDataset):
    """Scenes start..stop-1 of another dataset: a split."""

    def __init__(self, scenes: SceneDataset, start: int, stop: int) -> None:
        self.scenes, self.start, self.stop = scenes, start, stop
        self.info = scenes.info
        self.names = scenes.names[start:stop]

    def __len__(self) -> int:
        return self.stop - self.start

    def arrays(self, index: int) -> Arrays:
        return self.scenes.arrays(self.start + index)


def padded(values: Array, rows: int) -> Array:
    """Returns float32 `values` with NaN rows added, for the objects a scene does not have."""
    full = np.full((rows, *values.shape[1:]), np.nan, dtype=np.float32)
    full[: len(values)] = values
    return full
