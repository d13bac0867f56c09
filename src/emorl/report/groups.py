"""A run with its scores, runs that differ only in their seed as one group, and how settings are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import mean, stdev
from typing import Any, Literal

from emorl.data.base import SceneDataset
from emorl.evaluation.evaluate import Scores
from emorl.evaluation.metrics import metric
from emorl.report.nearest_preset import nearest_preset, system_of, title_of_system
from emorl.report.paper import Published, published
from emorl.runs.config import differing
from emorl.runs.run import Run
from emorl.types import Progress

Stage = Callable[[str], AbstractContextManager[Progress]]  # its title -> progress


@dataclass(frozen=True)
class Extent:
    """How much of everything a report shows."""

    images: int | None = None  # scenes to score; all of them if None
    dci: Literal["no", "fast", "exact"] = "no"
    scenes: int = 6  # to show, of each kind
    swept: int = 64  # scenes to score for each I
    probed: int = 20  # scenes whose slots are moved to find the active dimensions; 0: no search
    dims: int = 8  # dimensions to go through

    def affordable(self, one: Scored) -> Extent:
        """No more scenes than were scored, and fewer where images and slots are large."""
        small = 35**2 * 4  # pixels and slots for which the numbers above take a minute
        share = min(1.0, small / (one.scenes.info.image_size**2 * one.run.model.config.num_slots))
        images = one.scores.settings["images"]
        swept = min(images, max(8, round(share * self.swept)))
        probed = min(images, self.probed, max(2, round(share**1.5 * self.probed)))
        return replace(self, swept=swept, probed=probed)


QUICK = Extent(images=64, scenes=4, swept=16, probed=0)


@dataclass(frozen=True)
class Scored:
    """A run, the scenes it was scored on, and its scores."""

    run: Run
    scenes: SceneDataset
    scores: Scores

    @cached_property
    def settings(self) -> dict[str, Any]:
        """The whole configuration, by dotted name: "train.steps"."""
        return self.run.config.flat()

    @cached_property
    def preset(self) -> str | None:
        """The preset that differs in the fewest settings, if there is one."""
        return nearest_preset(self.run.config)

    @property
    def system(self) -> str:
        """As it is called in print."""
        return title_of_system(self.run.config)

    @property
    def dataset(self) -> str:
        """The data set, by the name of `emorl list`."""
        return self.run.config.data.name

    @property
    def dataset_title(self) -> str:
        """The data set as it is called in print."""
        return self.scenes.info.title or self.dataset

    @property
    def published(self) -> dict[str, Published]:
        """The paper's scores of this system on this data set."""
        return published(system_of(self.run.config), self.dataset)

    @cached_property
    def steps(self) -> str:
        """How far training has come."""
        wanted, done = self.run.config.train.steps, self.run.steps_saved
        return written(wanted) if done >= wanted else f"{written(done)} of {written(wanted)}"

    @property
    def is_stopped(self) -> bool:
        """Whether training has not come to its end."""
        return self.run.steps_saved < self.run.config.train.steps

    def sees_the_same_as(self, other: Scored) -> bool:
        """Whether both models take the same images."""
        sizes = self.scenes.info.image_size, other.scenes.info.image_size
        return self.dataset == other.dataset and sizes[0] == sizes[1]


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    label: str
    members: Sequence[Scored]

    @property
    def first(self) -> Scored:
        """The run that is looked at more closely."""
        return self.members[0]

    def value(self, name: str) -> tuple[float, float]:
        """A score: mean and standard deviation over runs; of a single run, mean and standard error over images."""
        if len(self.members) == 1:
            return self.first.scores.mean(name), self.first.scores.standard_error(name)
        means = [one.scores.mean(name) for one in self.members]
        return mean(means), stdev(means)

    def text(self, name: str) -> str:
        """The same as text, empty where this kind of model has no such score."""
        return metric(name).text(*self.value(name)) if name in self.first.scores.values else ""


def groups_of(scored: Sequence[Scored]) -> list[Group]:
    """Runs of one configuration together, named by what tells them from the others."""
    found: dict[str, list[Scored]] = {}
    for one in scored:
        same = {name: value for name, value in one.settings.items() if name != "train.seed"}
        found.setdefault(json.dumps(same, sort_keys=True), []).append(one)
    changed = differences([members[0].settings for members in found.values()])
    groups = []
    for members in found.values():
        settings = members[0].settings
        is_telling = 0 < len(changed) <= 2 and len(members) > 1
        by_setting = ", ".join(f"{short(name)} {written(settings.get(name))}" for name in changed)
        alone = (
            members[0].run.label
            if len(members) == 1
            else f"{members[0].run.label} and {len(members) - 1} more"
        )
        groups.append(Group(by_setting if is_telling else alone, members))
    return groups


def differences(configurations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Names of the settings that are not the same in all configurations; seeds of training do not count."""
    return [name for name in differing(*configurations) if name != "train.seed"]


def short(name: str) -> str:
    """The last part of a dotted name, in words."""
    return name.rsplit(".", 1)[-1].replace("_", " ")


def shortened(names: Sequence[str], length: int = 28) -> list[str]:
    """The ends of long names, or their beginnings, whichever tells them apart; whole names if neither does."""
    ends = [name if len(name) <= length else f"…{name[1 - length :]}" for name in names]
    beginnings = [name if len(name) <= length else f"{name[: length - 1]}…" for name in names]
    return next((cut for cut in (ends, beginnings) if len(set(cut)) == len(set(names))), list(names))


def written(value: Any) -> str:
    """A setting as a person would write it."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ", ".join(written(item) for item in value) or "none"
    if isinstance(value, int) and abs(value) >= 10_000:
        return f"{value:,}".replace(",", "\u202f")  # a narrow space
    return "–" if value is None else str(value)
