"""Models and scenes whose answers are known, and small trained runs, for the tests of evaluation, plots and reports."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from emorl.data import DataConfig
from emorl.data.base import Arrays, DatasetInfo, SceneDataset
from emorl.models.base import Model
from emorl.probability import Noise
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run
from emorl.training.trainer import train
from emorl.types import Decomposition, Outcome

TINY = "efficient-morl/tetrominoes-tiny"
SHIPPED = "efficient-morl/tetrominoes"


@dataclass(frozen=True)
class KnownConfig:
    image_size: int = 4
    num_slots: int = 2


class Known(Model):
    """Slots of three numbers: the first is a brightness, the second is ignored, the third is the mask's logit."""

    Config = KnownConfig

    def __init__(self) -> None:
        super().__init__()
        self.config = KnownConfig()
        self.unused = torch.nn.Parameter(torch.zeros(()))

    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        brightness = x.mean(dim=(1, 2, 3))[:, None].expand(-1, K)
        number = torch.arange(K).expand(len(x), -1)
        slots = torch.stack([brightness, 10.0 * number, torch.zeros_like(brightness)], dim=-1)
        step = self.decode(slots)
        return Outcome(x.mean(), {"nll": torch.zeros(len(x))}, (step,))

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        assert size in (None, 4)
        logits = slots[..., 2, None, None, None].expand(-1, -1, 1, 4, 4)
        components = slots[..., 0, None, None, None].expand(-1, -1, 3, 4, 4)
        return Decomposition(logits.softmax(dim=1), components, slots)


class CountedGreys(SceneDataset):
    """Scene i is of grey level 51 i and has i objects of one pixel."""

    info = DatasetInfo("greys", 4, 4, {})

    def __len__(self) -> int:
        return 4

    def arrays(self, index: int) -> Arrays:
        ids = torch.zeros(16, dtype=torch.uint8)
        ids[:index] = torch.arange(1, index + 1)
        return {
            "image": torch.full((4, 4, 3), 51 * index, dtype=torch.uint8).numpy(),
            "segmentation": ids.reshape(4, 4).numpy(),
        }


class Halves(Known):
    """Each slot owns one half of the image for good."""

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        whole = super().decode(slots, size=size)
        masks = torch.zeros_like(whole.masks)
        masks[:, 0, :, :, :2], masks[:, 1, :, :, 2:] = 1, 1
        return Decomposition(masks, whole.components, slots)


@dataclass(frozen=True)
class ToyConfig:
    image_size: int = 8
    num_slots: int = 2


class Toy(Model):
    """No iteration, no attention, no KL: slot 0 is the left half, as bright as its first number; the rest is black."""

    Config = ToyConfig

    def __init__(self) -> None:
        super().__init__()
        self.config = ToyConfig()
        self.unused = nn.Parameter(torch.zeros(1))

    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        brightness = x.mean(dim=(1, 2, 3))
        slots = torch.zeros(len(x), 2, 3)
        slots[:, 0, 0], slots[:, 0, 2] = brightness, 1 - brightness
        return Outcome(x.mean(), {}, (self.decode(slots),))

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        assert size in (None, 8)
        masks = torch.zeros(len(slots), 2, 1, 8, 8)
        masks[:, 0, :, :, :4] = masks[:, 1, :, :, 4:] = 1
        components = slots[:, :, :1, None, None].expand(-1, -1, 3, 8, 8)
        return Decomposition(masks, components, slots)


class Greys(SceneDataset):
    """Images of one brightness each, about which nothing more is known."""

    info = DatasetInfo("greys", 8, 1, {}, has_masks=False)

    def __len__(self) -> int:
        return 5

    def arrays(self, index: int) -> Arrays:
        grey = np.full((8, 8, 3), 40 * (index + 1), np.uint8)
        return {"image": grey, "segmentation": np.zeros((8, 8), np.uint8)}


def two_seeds(folder: Path) -> list[Path]:
    """Two seeds of a tiny training, one with a name that is not easy to write."""
    for seed, name in enumerate(["<b>&", "plain"]):
        preset = PRESETS[TINY]
        short = replace(preset.train, steps=12, evaluate_every=6, seed=seed)
        train(replace(preset, train=short), folder / name)
    return [folder / "<b>&", folder / "plain"]


def toy_run(name: str = "a", **train: Any) -> Run:
    """A run of `Toy` that was never trained; register the model in MODELS under "toy" before its settings are read."""
    settings = {"steps": 20, "batch_size": 4, **train}
    run = Run(name, RunConfig(ToyConfig(), DataConfig("greys"), TrainConfig(**settings)), None, Path("none"))
    run.__dict__["model"] = Toy()  # instead of the weights there are not
    return run
