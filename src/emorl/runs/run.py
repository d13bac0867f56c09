"""Run: one trained model with everything known of its training; and load(), the short way to the model.

A run is opened by its directory, by a folder of `save_pretrained`, or by the name of released weights. These are named
model/data set, whatever preset trained them. Beside `weights/<name>.safetensors` stands `weights/<name>.json`, its
card: configuration, data, scores, and the command that made it.
"""

from __future__ import annotations

import hashlib
import reprlib
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from emorl.data import FOLDER as PICTURES
from emorl.data import Split, open_dataset
from emorl.data.base import SceneDataset
from emorl.errors import UserError, nearest
from emorl.evaluation.metrics import VALIDATION
from emorl.files import read_json
from emorl.models import kind_of
from emorl.models.base import Model
from emorl.runs.card import read_header
from emorl.runs.checkpoint import build_model, read_weights, saved_step
from emorl.runs.config import RunConfig
from emorl.runs.directory import CONFIG, ENVIRONMENT, MODEL, README, SCORES, WEIGHTS, read_metrics
from emorl.runs.own_pictures import warn_of_changes

FOLDER = Path(__file__).parent / "weights"
CARD: dict[str, Any] = {  # what a card must have, and of which type
    "config": dict,
    "scores": dict,
    "sha256": str,
    "environment": dict,
    "cpu_minutes": int | float,
}

Metrics = list[dict[str, Any]]  # the lines of metrics.jsonl: numbers, or None for one that was not finite


@dataclass(frozen=True)
class Run:
    """A trained run. Opening it reads the configuration; weights, metrics and scores are read when asked for."""

    name: str  # as it was asked for: the path of the directory, or the name of released weights
    config: RunConfig
    directory: Path | None  # None for released and saved weights
    weights: Path  # the .safetensors file
    card: dict[str, Any] = field(default_factory=dict)  # of released and saved weights; empty for a directory
    label: str = ""  # how tables and pictures call it; its name if left out

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.label or self.name)

    @staticmethod
    def open(path_or_name: str | Path, *, label: str = "") -> Run:
        """Opens a run directory, a folder of `save_pretrained`, or released weights by name.

        Raises UserError where there is none of them.
        """
        if not isinstance(path_or_name, str | Path) or not str(path_or_name):
            raise UserError(
                f"A run is the path of its directory or the name of released weights, not {reprlib.repr(path_or_name)}."
            )
        path, name = Path(path_or_name), str(path_or_name)
        if path.is_dir():
            if not (path / CONFIG).exists():
                raise UserError(f"{path} is not a run directory: it has no {CONFIG}.")
            if (path / MODEL).exists() and not (path / WEIGHTS).exists():
                config = RunConfig.read(path / CONFIG)
                return Run(name, config, None, path / MODEL, read_header(path / MODEL), label)
            return Run(name, RunConfig.read(path / CONFIG), path, path / WEIGHTS, label=label)
        if name not in released():
            raise UserError(
                f"There is no run directory and no released model {name!r}{nearest(name, released())}"
            )
        card = card_of(name)
        config = RunConfig.from_dict(card["config"])
        return Run(name, config, None, FOLDER / f"{name}.safetensors", card, label)

    @property
    def inputs(self) -> list[Path]:
        """What no command may overwrite: its weights, their page, and its folder of pictures if it has one."""
        data = self.config.data
        pictures = [Path(data.path)] if data.name == PICTURES and data.path else []
        return [self.weights, self.weights.with_name(README), *pictures]

    @cached_property
    def model(self) -> Model:
        """The model with its weights, ready for inference. Raises UserError if they are missing or damaged."""
        if not self.weights.exists():
            raise UserError(
                f"{self.name} has no {WEIGHTS} yet: its training has not reached the first checkpoint."
            )
        if "sha256" in self.card and checksum(self.weights) != self.card["sha256"]:
            raise UserError(f"The released weights {self.weights} are damaged: install emorl again.")
        return build_model(self.config.model, read_weights(self.weights), source=self.weights)

    @cached_property
    def metrics(self) -> Metrics:
        """What training logged, line by line, under today's names; empty for released weights."""
        return [] if self.directory is None else read_metrics(self.directory)

    @cached_property
    def scores(self) -> dict[str, Any]:
        """What `emorl evaluate` has written, or the card's scores; empty if it was not evaluated yet."""
        return self.recorded(SCORES, "scores")

    @cached_property
    def environment(self) -> dict[str, Any]:
        """The package and machine that trained it, as far as known."""
        return self.recorded(ENVIRONMENT, "environment")

    def recorded(self, file: str, entry: str) -> dict[str, Any]:
        """What a file of the directory holds, or an entry of the card where there is none; empty if it is missing."""
        if self.directory is None:
            return dict(self.card.get(entry, {}))
        path = self.directory / file
        return read_json(path) if path.exists() else {}

    @property
    def kind(self) -> str:
        """The kind of model, a key of MODELS."""
        return kind_of(self.config.model)

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return self.config.train.seed

    @property
    def steps_done(self) -> int:
        """How many steps training has logged; all of them for released weights."""
        if self.directory is None:
            steps = self.card.get("steps")
            return steps if type(steps) is int and steps >= 0 else self.config.train.steps
        return int(self.metrics[-1]["step"] or 0) + 1 if self.metrics else 0

    @property
    def steps_saved(self) -> int:
        """How many steps its weights have been trained for: those of the last checkpoint, if there is one to read."""
        if self.directory is None:
            return self.steps_done
        saved = saved_step(self.directory)
        return self.steps_done if saved is None else saved

    @property
    def is_finished(self) -> bool:
        """Whether it was trained to the end and its weights are there."""
        return self.weights.exists() and self.steps_done >= self.config.train.steps

    @property
    def cpu_minutes(self) -> float | None:
        """Processor time that training took, that of released weights it began with included; None if not known."""
        if self.directory is None:
            return self.card.get("cpu_minutes")
        seconds = [line["cpu_seconds"] for line in self.metrics if line.get("cpu_seconds") is not None]
        return self.minutes_before + seconds[-1] / 60 if seconds else None

    @property
    def steps_in_all(self) -> int:
        """How many steps the finished training has, those behind released weights that it began with included."""
        return self.steps_before + self.config.train.steps

    @property
    def earlier(self) -> Run | None:
        """The released weights that the training began with; None if it did not."""
        start = self.config.train.start_from
        return Run.open(start) if start in released() else None

    @property
    def steps_before(self) -> int:
        """How many steps of training are behind the released weights that it began with."""
        return 0 if self.earlier is None else self.earlier.steps_in_all

    @property
    def minutes_before(self) -> float:
        """How many minutes of processor time are behind them."""
        return 0.0 if self.earlier is None else self.earlier.cpu_minutes or 0.0

    def curve(self, *names: str) -> list[dict[str, float]]:
        """Validation scores `names` over the training, with the steps and CPU minutes of what it began with added.

        Those of released weights are in their card, if they were kept.
        """
        steps, minutes = self.steps_before, self.minutes_before
        found = [
            {"step": steps + line["step"] + 1, "cpu_minutes": round(minutes + line["cpu_seconds"] / 60, 2)}
            | {name: line[VALIDATION + name] for name in names if VALIDATION + name in line}
            for line in self.metrics
            if f"{VALIDATION}mse" in line
        ]
        kept = [{name: point[name] for name in ("step", "cpu_minutes", *names) if name in point}
                for point in self.card.get("curve", [])]  # fmt: skip
        return [{name: round(value, 5) for name, value in point.items()} for point in [*kept, *found]]

    def scenes(self, split: Split) -> SceneDataset:
        """The scenes of one split of the data it was trained on; warns if a folder of pictures has changed since."""
        if self.directory is not None:
            warn_of_changes(self.directory, self.config.data)
        return open_dataset(self.config.data, split)


def load(path_or_name: str | Path) -> Model:
    """Returns a trained model, ready for `decompose`: that of a run directory, of a folder of `save_pretrained`, or of
    released weights by name.
    """
    return Run.open(path_or_name).model


def released() -> list[str]:
    """Returns the names of the weights that come with the package."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.json"))


def card_of(name: str) -> dict[str, Any]:
    """Returns what is known of released weights. Raises UserError if the file is not such a card."""
    path = FOLDER / f"{name}.json"
    card = read_json(path)
    for key, kind in CARD.items():
        if not isinstance(card.get(key), kind):
            raise UserError(f"{path} is no card of released weights: its {key!r} is missing or wrong.")
    if not isinstance(card["scores"].get("ari"), int | float):
        raise UserError(f"{path} is no card of released weights: its scores have no ARI.")
    return card


def checksum(path: Path) -> str:
    """Returns the sha256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
