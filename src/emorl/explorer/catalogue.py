"""Catalogue: the models and data sets that a visitor can choose from, by name; nobody chooses by path."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import cached_property
from threading import Lock
from typing import Any

import numpy as np
import torch
from torch import Tensor

from emorl.data import DATASETS, DataConfig, info_of, open_dataset
from emorl.data.base import Array, SceneDataset
from emorl.data.fit import fitted
from emorl.errors import UserError, nearest
from emorl.explorer.meaning import Study, study
from emorl.models.base import Model
from emorl.nn.pixels import PixelDecoder
from emorl.runs.run import Run

CPU = torch.device("cpu")


@dataclass
class Entry:
    """A model, the data it can look at, and what its numbers stand for. All of it is read when asked for."""

    run: Run
    device: torch.device = CPU

    def __post_init__(self) -> None:
        self.lock = Lock()  # two visitors may ask for the same model at once
        self.opened: dict[str, SceneDataset] = {}
        self.thread = ThreadPoolExecutor(1, thread_name_prefix="study")
        self.studying: Future[Study] | None = None

    @property
    def name(self) -> str:
        """How it is called on the page: its run's label."""
        return self.run.label

    @property
    def model(self) -> Model:
        """The model with its weights, on its device."""
        with self.lock:
            return self.run.model.to(self.device).eval()

    @cached_property
    def data(self) -> list[str]:
        """The names of data sets with images of the right size, its own first."""
        size, own = self.run.config.model.image_size, self.run.config.data.name
        return [own, *(name for name in DATASETS if name != own and info_of(name).image_size == size)]

    @property
    def others(self) -> list[str]:
        """The names of data sets with images of another size, which are made to fit."""
        return [name for name in DATASETS if name not in self.data]

    def scenes(self, name: str | None) -> SceneDataset:
        """Held-out scenes of its own data set or another one."""
        own = self.run.config.data
        name = name or own.name
        if name not in self.data and name not in self.others:
            known = [*self.data, *self.others]
            raise UserError(f"{self.name} cannot look at {name!r}{nearest(name, known)}")
        with self.lock:
            if name not in self.opened:
                self.opened[name] = (
                    self.run.scenes("test") if name == own.name else open_dataset(DataConfig(name), "test")
                )
            return self.opened[name]

    def picture(self, name: str | None, index: int) -> Tensor:
        """The image (3, H, W) of a scene, as large as the model takes it, on its device."""
        image = self.scenes(name)[index].image
        if image.shape[-1] == self.run.config.model.image_size:
            return image.to(self.device)
        return self.fitted((image.permute(1, 2, 0) * 255).round().byte().numpy())

    def fitted(self, pixels: Array) -> Tensor:
        """A picture (H, W, 3) of any size as the model takes it, (3, side, side), on its device."""
        config = self.run.config
        square = fitted(pixels, config.model.image_size, config.data.fit)
        return torch.from_numpy(np.array(square)).to(self.device).permute(2, 0, 1).float() / 255

    def study(self, *, wait: bool = False) -> Study | None:
        """Ranges and labels of the numbers of its slots. It takes seconds, on a thread of its own: None until then."""
        with self.lock:
            if self.studying is None:
                self.studying = self.thread.submit(lambda: study(self.model, self.scenes(None)))
        return self.studying.result() if wait or self.studying.done() else None

    def described(self) -> dict[str, Any]:
        """What the page shows of it before it is chosen."""
        config = self.run.config
        return {
            "name": self.name,
            "title": self.name,
            "data": self.data,
            "others": self.others,
            "size": config.model.image_size,
            "slots": config.model.num_slots,
            "ari": self.run.scores.get("ari"),
        }


@dataclass(frozen=True)
class Catalogue:
    """The models to choose from; the first one is shown first."""

    entries: Sequence[Entry]

    @staticmethod
    def of(runs: Sequence[Run], device: torch.device = CPU) -> Catalogue:
        """A catalogue of runs on `device`; those of the same name are told apart by a number."""
        entries: list[Entry] = []
        for run in runs:
            taken = [entry.name for entry in entries]
            label, number = run.label, 2
            while label in taken:
                label, number = f"{run.label} ({number})", number + 1
            entries.append(Entry(replace(run, label=label), device))
        return Catalogue(entries)

    def entry(self, name: str) -> Entry:
        """The model of that name. Raises UserError if there is none."""
        for entry in self.entries:
            if entry.name == name:
                return entry
        raise UserError(f"There is no model {name!r}{nearest(name, [entry.name for entry in self.entries])}")


def describe(model: Model) -> dict[str, Any]:
    """What the page must know of a model to offer the right controls."""
    return {
        "frame": isinstance(model.decoder, PixelDecoder),
        "steps": None if model.step_range is None else list(model.step_range),
        "slots": list(model.slot_range),
        "usual_slots": model.config.num_slots,
        "usual_steps": getattr(model.config, "num_steps", None) if model.step_range else None,
        "title": model.title,
    }
