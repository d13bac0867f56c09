"""RunConfig: everything that determines a training run, and its JSON."""

from __future__ import annotations

import math
import os
import reprlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from emorl.config import from_dict, to_dict
from emorl.data import DataConfig
from emorl.errors import UserError, check_numbers, check_seed, nearest
from emorl.files import read_json
from emorl.models import MODELS, kind_of
from emorl.runs.upgrade import upgrade
from emorl.schedules import Schedule


@dataclass(frozen=True)
class TrainConfig:
    """How to train; defaults are the paper's."""

    steps: int = 300_000  # optimiser steps
    batch_size: int = 32  # images per step, over all devices together
    optimizer: Literal["adam", "muon"] = "adam"  # the paper's, or one that needs half the steps
    muon_size: float = 0.5  # root mean square of Muon's updates, in learning rates
    # The paper's goes up to 4e-4 over 10 000 steps and is halved every 100 000 (Difference 29).
    learning_rate: Schedule = Schedule.parse("0 linear 10000:4e-4 geometric 1010000:3.90625e-7")
    max_grad_norm: float = 5.0  # longer gradients are scaled down to this
    num_steps: Schedule | None = Schedule.parse(3)  # I, steps of inference; None: as many as the model has
    drop_below: float = 0.0  # drop the last refinement when its update is below this share of its peak
    # Weights to begin with instead of new ones: a run directory, the name of released weights or a .safetensors file.
    start_from: str | None = None
    seed: int = 0  # of weights, batches and noise
    devices: int = 1  # processes or GPUs to train on, of each node
    nodes: int = 1  # machines; more than one need torchrun or SLURM
    accelerator: Literal["auto", "cpu", "cuda"] = "auto"
    precision: Literal["32-true", "bf16-mixed"] = "32-true"
    compile: bool = False  # with torch.compile: a minute of waiting, then faster steps; needs a C++ compiler
    log_every: int = 10  # steps between lines of metrics.jsonl
    evaluate_every: int = 1000  # steps between scores on validation scenes
    evaluate_images: int = 64  # validation scenes to score then
    checkpoint_every: int = 500  # steps that a power cut can cost
    logger: Literal["none", "tensorboard", "wandb"] = "none"  # where metrics go besides metrics.jsonl

    def __post_init__(self) -> None:
        check_numbers(
            "train", self, steps=1, batch_size=1, devices=1, nodes=1, log_every=1, evaluate_every=1, checkpoint_every=1,
            evaluate_images=1, drop_below=0, positive=("max_grad_norm", "muon_size"),
        )  # fmt: skip
        check_seed("train.seed", self.seed)
        for name in ("learning_rate", "num_steps"):  # a number or a text stands for a schedule
            if isinstance(value := getattr(self, name), int | float | str):
                object.__setattr__(self, name, Schedule.parse(value))
        if self.batch_size % (self.devices * self.nodes):
            raise UserError(
                f"train.batch_size {self.batch_size} cannot be shared by {self.devices * self.nodes} devices evenly."
            )
        if self.learning_rate.smallest < 0:
            raise UserError(f"train.learning_rate must never be below 0, as in {str(self.learning_rate)!r}.")
        if self.num_steps is not None and self.num_steps.smallest < 0:
            raise UserError(f"train.num_steps must never be below 0, as in {str(self.num_steps)!r}.")


@dataclass(frozen=True)
class RunConfig:
    """A model, the data it learns from, and how."""

    model: Any  # the Config of one of MODELS
    data: DataConfig = field(default_factory=DataConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        for name, kind in (("data", DataConfig), ("train", TrainConfig)):
            if not isinstance(getattr(self, name), kind):
                raise UserError(f"{name} must be a {kind.__name__}, not {reprlib.repr(getattr(self, name))}.")
        for name, value in self.flat().items():
            values = value if isinstance(value, list) else [value]
            if not all(math.isfinite(item) for item in values if isinstance(item, float)):
                raise UserError(f"{name} must be a finite number, not {value}.")

    def to_dict(self) -> dict[str, Any]:
        """Returns every setting as plain JSON values, with the kind of the model."""
        values = to_dict(self)
        return values | {"model": {"kind": kind_of(self.model), **values["model"]}}

    def flat(self) -> dict[str, Any]:
        """Returns every setting by its dotted name, as on the command line: "train.learning_rate"."""
        return dict(flatten(self.to_dict()))

    def changed(self, settings: Mapping[str, Any]) -> RunConfig:
        """Returns the same run with some settings changed, by dotted name: {"train.steps": 100}.

        Raises UserError for a name that is none, and for a value that it cannot have.
        """
        if not isinstance(settings, Mapping):
            raise UserError(f"Settings are values by dotted name, not {reprlib.repr(settings)}.")
        values, known = self.to_dict(), self.flat()
        for name, value in settings.items():
            if name not in known or name == "model.kind":
                raise UserError(f"{name} is not a setting of this run{nearest(str(name), known)}")
            *groups, last = name.split(".")
            group = values
            for one in groups:
                group = group[one]
            group[last] = str(value) if isinstance(value, Schedule | Path) else value
        return RunConfig.from_dict(values)  # also where nothing changes: it checks every type

    def with_steps(self, steps: int) -> RunConfig:
        """Returns the same run with another number of steps."""
        return replace(self, train=replace(self.train, steps=steps))

    def without_path(self) -> RunConfig:
        """Returns the same run without the path of its data, which is good on one machine only."""
        return replace(self, data=replace(self.data, path=None))

    def with_whole_paths(self) -> RunConfig:
        """Returns the same run with paths that lead to the same files from any folder."""
        start, path = self.train.start_from, self.data.path
        if start is not None and os.path.exists(start):  # or else it is the name of released weights
            start = os.path.abspath(start)
        data = replace(self.data, path=None if path is None else os.path.abspath(path))
        return replace(self, data=data, train=replace(self.train, start_from=start))

    @staticmethod
    def from_dict(values: Mapping[str, Any]) -> RunConfig:
        """Returns the settings in `values`, of any version. Raises UserError naming what is wrong."""
        values = upgrade(values)
        groups = ("model", "data", "train")
        for name in values:
            if name not in groups:
                raise UserError(f"{name} is not a group of a run's settings{nearest(name, groups)}")
        model = values.get("model", {})
        if not isinstance(model, Mapping):
            raise UserError(f"model must be a group of settings, not {model!r}.")
        kind = model.get("kind")
        if not isinstance(kind, str) or kind not in MODELS:
            raise UserError(f"model.kind must name a model, not {kind!r}{nearest(str(kind), MODELS)}")
        settings = {name: value for name, value in model.items() if name != "kind"}
        return RunConfig(
            from_dict(MODELS[kind].Config, settings, path="model"),
            from_dict(DataConfig, values.get("data", {}), path="data"),
            from_dict(TrainConfig, values.get("train", {}), path="train"),
        )

    @staticmethod
    def read(path: Path) -> RunConfig:
        """Returns the settings in a config.json. Raises UserError naming the file and what is wrong with it."""
        try:
            return RunConfig.from_dict(read_json(path))
        except UserError as error:
            raise UserError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None


def differing(*runs: Mapping[str, Any]) -> list[str]:
    """Returns the names of the settings, by dotted name as `RunConfig.flat` has them, that are not the same in all."""
    names = dict.fromkeys(name for settings in runs for name in settings)
    return [name for name in names if any(one.get(name) != runs[0].get(name) for one in runs)]


def flatten(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields (dotted name, value) for every setting in nested groups."""
    for name, value in values.items():
        if isinstance(value, Mapping):
            yield from flatten(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value
