"""How large a reproduction is, and how the runs of an experiment are made from presets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

from emorl.data import info_of
from emorl.experiments.results import identity
from emorl.models import kind_of
from emorl.models.efficient_morl_config import EfficientMORLConfig
from emorl.report.paper import SYSTEMS
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run, released
from emorl.schedules import Schedule

ScaleName = Literal["cpu", "paper", "tiny"]
V = TypeVar("V")
Changes = Mapping[str, Any]  # "model.num_steps" -> value: what differs from a preset

GECO = {
    # The weight of the reconstruction is found while training, with no constant of the data set.
    "model.objective.nll_weight": 1.0,
    "model.objective.kl_weight": Schedule.parse("0.002 500:0.002 geometric 1500:1"),
    "model.objective.geco.target": "auto",
    "model.objective.geco.warm_up": 1500,
    "model.objective.geco.rate": 0.001,
}


@dataclass(frozen=True)
class Wanted:
    """A training that an experiment needs: the label of its row and its settings, the seed included."""

    label: str
    config: RunConfig

    @property
    def seed(self) -> int:
        """The seed of the training."""
        return self.config.train.seed

    @property
    def kind(self) -> str:
        """The kind of model, by its name in presets."""
        return kind_of(self.config.model)

    @property
    def weights(self) -> str | None:
        """The name of the released weights of this training, with this seed or the one that was best, or None."""
        same = (name for name in released() if identity(Run.open(name).config) == identity(self.config))
        return next(same, None)

    def on(self, device: Literal["cpu", "cuda"]) -> RunConfig:
        """The same training on a device; where it computes does not change which run it is."""
        return replace(self.config, train=replace(self.config.train, accelerator=device))

    def place(self, folder: Path) -> Path:
        """Where it is trained. Experiments that need the same training share one directory."""
        name = f"{self.kind}--{self.config.data.name}--{identity(self.config)[:10]}"
        return folder / "runs" / name / f"seed-{self.seed}"


@dataclass(frozen=True)
class Scale:
    """How large a reproduction is."""

    description: str
    # Data set of the paper -> the preset that stands for it; experiments train variants of these.
    presets: Mapping[str, str]
    seeds: tuple[int, ...]  # of variants
    suffix: str = ""  # of the presets of experiments about well-trained models
    seeds_in_full: tuple[int, ...] = (0, 1, 2, 3, 4)  # of those
    changes: Changes = field(default_factory=dict)  # of variants: what differs from the preset
    everywhere: Changes = field(default_factory=dict)  # of all runs
    full: Changes = field(default_factory=dict)  # what makes a variant the paper's full model, GECO included


LONG = "-long"  # of the names of presets that go on where another one ends
DATASETS = ("tetrominoes", "multi-dsprites", "clevr6")
SCALES: dict[ScaleName, Scale] = {
    "cpu": Scale(
        "Tetrominoes whatever the paper used, 2000 steps of the preset on one core, two seeds",
        # A shortened whole run: objects are found first, then the KL weight rises, then the learning rate decays.
        presets=dict.fromkeys(DATASETS, "efficient-morl/tetrominoes-plain"),
        seeds=(0, 1),
        seeds_in_full=(0,),
        changes={
            "model.objective.kl_weight": Schedule.parse("0.007 500:0.007 geometric 1500:1"), "train.steps": 2000,
            "train.evaluate_every": 250, "train.checkpoint_every": 250,
        },
        full=GECO,
    ),
    "paper": Scale(
        "the paper's data, settings and number of steps, five seeds; for owners of GPUs",
        presets={name: f"efficient-morl/{name}-paper" for name in (*DATASETS, "multi-dsprites-textured")},
        seeds=(0, 1, 2, 3, 4),
        suffix="-paper",
    ),
    "tiny": Scale(
        "models of a few thousand weights, a dozen steps: it shows that everything works, and nothing else",
        presets=dict.fromkeys(DATASETS, "efficient-morl/tetrominoes-tiny"),
        seeds=(0,),
        suffix="-tiny",
        seeds_in_full=(0,),
        everywhere={
            "train.steps": 12, "train.evaluate_every": 6, "train.log_every": 1, "data.test_size": 40,
            "data.validation_size": 8,
        },
        full=GECO,
    ),
}  # fmt: skip


def changed(config: Any, changes: Changes) -> Any:
    """A dataclass with other values: `changes` has their dotted names, so that groups within groups can be reached."""
    for name, value in changes.items():
        first, _, rest = name.partition(".")
        config = replace(config, **{first: changed(getattr(config, first), {rest: value}) if rest else value})
    return config


def refinements(I: int) -> Changes:
    """Returns the changes that make a training use I refinements throughout."""
    return {"model.num_steps": I, "train.num_steps": Schedule.parse(I)}


def resized(config: Any, size: int) -> Any:
    """The same model for images of another size."""
    if isinstance(config, EfficientMORLConfig):
        # GECO's target was for the old size; out of reach or not, a pass costs the same.
        geco = replace(config.objective.geco, allow_unreachable=True)
        config = replace(config, objective=replace(config.objective, geco=geco))
    return replace(config, image_size=size)


def variants(rows: Mapping[str, Changes], scale: ScaleName, *, dataset: str = "tetrominoes") -> list[Wanted]:
    """Variants of the preset that stands for `dataset`, by label, with every seed of the scale."""
    size = SCALES[scale]
    preset = PRESETS[size.presets[dataset]]
    return [
        wanted(label, {**size.changes, **size.everywhere, **changes}, preset, seed)
        for label, changes in rows.items()
        for seed in size.seeds
    ]


def systems(
    scale: ScaleName,
    datasets: Sequence[str],
    kinds: Sequence[str] = tuple(SYSTEMS),
    *,
    seeds: Sequence[int] | None = None,
    long: Literal["left out", "too", "instead"] = "left out",
) -> list[Wanted]:
    """Each system's preset for each data set, or for Tetrominoes where no system has one at this scale.

    `long` says what becomes of presets that go on where another one ends: beside that one, or in its place.
    """
    size = SCALES[scale]
    found: dict[str, RunConfig] = {}
    for data in datasets:
        names = [f"{kind}/{data}{size.suffix}" for kind in kinds]
        if not any(name in PRESETS for name in names):
            names = [f"{kind}/tetrominoes{size.suffix}" for kind in kinds]
        for name in (name for name in names if name in PRESETS):
            has_longer = long != "left out" and f"{name}{LONG}" in PRESETS
            if not (has_longer and long == "instead"):
                found[name] = PRESETS[name]
            if has_longer:
                found[f"{name}{LONG}"] = PRESETS[f"{name}{LONG}"]
    return [
        wanted(
            system_on(name.split("/")[0], run.data.name, is_long=name.endswith(LONG)),
            size.everywhere,
            run,
            seed,
        )
        for name, run in found.items()
        for seed in (size.seeds_in_full if seeds is None else seeds)
    ]


def wanted(label: str, changes: Changes, run: RunConfig, seed: int) -> Wanted:
    """Returns the training of `run` with `changes` and `seed`."""
    return Wanted(label, changed(run, {**changes, "train.seed": seed}))


def system_on(kind: str, dataset: str, *, is_long: bool = False) -> str:
    """How a system and a data set are called in print."""
    return f"{SYSTEMS.get(kind, kind)}{' (long)' if is_long else ''}, {info_of(dataset).title}"


def beside_ours(published: Mapping[tuple[str, str], V]) -> dict[str, V]:
    """Published values by the labels of our rows, those of long trainings too."""
    return {
        system_on(*key, is_long=is_long): values
        for key, values in published.items()
        for is_long in ((False, True) if f"{'/'.join(key)}{LONG}" in PRESETS else (False,))
    }


def paper_steps(keys: Iterable[tuple[str, str]]) -> dict[str, int]:
    """Label of a row -> training steps behind the paper's values, for pairs of a system and a data set."""
    return beside_ours({(kind, data): PRESETS[f"{kind}/{data}-paper"].train.steps for kind, data in keys})


def of_variants(scale: ScaleName) -> str:
    """The protocol of experiments that compare variants."""
    return SCALES[scale].description


def of_presets(scale: ScaleName) -> str:
    """The protocol of experiments about well-trained models."""
    return (
        "the presets for small machines there are, in full, on one core, one seed; released weights where there are any"
        if scale == "cpu"
        else of_variants(scale)
    )
