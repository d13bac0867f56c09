"""What a report knows of a run, runs that differ only in their seed as one group, and how numbers are written."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from statistics import mean, stdev
from typing import Any, Literal

from emorl.data.base import SceneDataset
from emorl.evaluation.evaluate import Scores
from emorl.models.base import Model
from emorl.plots.lines import Metrics
from emorl.report.published import DATASET_TITLES, SYSTEMS, Published, published

Settings = Mapping[str, Any]
Stage = Callable[[str], AbstractContextManager[Callable[[int, int], None]]]  # its title -> progress


@dataclass(frozen=True)
class Extent:
    """How much of everything a report shows."""

    images: int | None = None  # scenes to score; all of them if None
    dci: Literal["no", "fast", "exact"] = "no"
    scenes: int = 6  # to show, of each kind
    swept: int = 64  # scenes to score for each I
    probed: int = 20  # scenes whose slots are moved to find the active dimensions; 0: no search
    dims: int = 8  # dimensions to go through

    def affordable(self, run: Run, images: int) -> Extent:
        """No more scenes than were scored, and fewer where images and slots are large."""
        small = 35**2 * 4  # pixels and slots for which the numbers above take a minute
        share = min(1.0, small / (run.scenes.info.image_size**2 * run.model.config.num_slots))
        swept = min(images, max(8, round(share * self.swept)))
        probed = min(images, self.probed, max(2, round(share**1.5 * self.probed)))
        return replace(self, swept=swept, probed=probed)


QUICK = Extent(images=64, scenes=4, swept=16, probed=0)


@dataclass(frozen=True)
class Run:
    """A trained model and what is known of its training."""

    name: str
    kind: str  # of model
    model: Model
    scenes: SceneDataset  # held out, to be judged on
    settings: Settings  # the whole configuration, as in config.json
    preset: str | None = None  # whose configuration this is, but for a few settings
    usual: Settings = field(default_factory=dict)  # that preset's configuration
    metrics: Metrics = ()
    environment: Mapping[str, Any] = field(default_factory=dict)
    cpu_minutes: float | None = None  # that training took
    commands: Sequence[str] = ()  # that make it again

    @property
    def seed(self) -> int:
        return int(self.settings["train"]["seed"])

    @property
    def system(self) -> str:
        return SYSTEMS.get(self.kind, self.kind)

    @property
    def dataset(self) -> str:
        """The data set, by the name of `emorl list`."""
        return str(self.settings["data"]["name"])

    def shows_like(self, other: Run) -> bool:
        """Whether both models take the same images."""
        return (self.dataset, self.scenes.info.image_size) == (other.dataset, other.scenes.info.image_size)

    @property
    def steps(self) -> str:
        """How far training has come."""
        wanted = self.settings["train"]["steps"]
        done = int(self.metrics[-1]["step"] or 0) + 1 if self.metrics else wanted
        return written(wanted) if done >= wanted else f"{written(done)} of {written(wanted)}"

    @property
    def published(self) -> dict[str, Published]:
        return published(self.kind, self.dataset)


@dataclass(frozen=True)
class Scored:
    """A run and its scores."""

    run: Run
    scores: Scores


@dataclass(frozen=True)
class Group:
    """Runs that differ only in their seed."""

    label: str
    members: Sequence[Scored]

    @property
    def first(self) -> Scored:
        return self.members[0]

    def value(self, name: str) -> tuple[float, float]:
        """A score: mean and standard deviation over runs; of a single run, mean and standard error over images."""
        if len(self.members) == 1:
            return self.first.scores.mean(name), self.first.scores.standard_error(name)
        means = [one.scores.mean(name) for one in self.members]
        return mean(means), stdev(means)

    def text(self, name: str) -> str:
        """The same in words, nothing where this kind of model has no such score."""
        return QUANTITIES[name].text(*self.value(name)) if name in self.first.scores.values else ""


def flat(settings: Settings, path: str = "") -> Iterator[tuple[str, Any]]:
    """Settings as (dotted name, value)."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{path}{name}.")
        else:
            yield f"{path}{name}", value


def groups_of(scored: Sequence[Scored]) -> list[Group]:
    """Runs of one configuration together, named by what tells them from the others."""
    found: dict[str, list[Scored]] = {}
    for one in scored:
        same = {name: value for name, value in flat(one.run.settings) if name != "train.seed"}
        found.setdefault(json.dumps(same, sort_keys=True), []).append(one)
    differing = differences([members[0].run.settings for members in found.values()])
    groups = []
    for members in found.values():
        settings = dict(flat(members[0].run.settings))
        is_telling = 0 < len(differing) <= 2 and len(members) > 1
        told = ", ".join(f"{short(name)} {written(settings.get(name))}" for name in differing)
        alone = (
            members[0].run.name if len(members) == 1 else f"{members[0].run.name} and {len(members) - 1} more"
        )
        groups.append(Group(told if is_telling else alone, members))
    return groups


def differences(configurations: Sequence[Settings]) -> list[str]:
    """Names of the settings that are not the same in all configurations; seeds of training do not count."""
    tables = [dict(flat(settings)) for settings in configurations]
    names = dict.fromkeys(name for table in tables for name in table if name != "train.seed")
    return [name for name in names if any(table.get(name) != tables[0].get(name) for table in tables)]


def short(name: str) -> str:
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


@dataclass(frozen=True)
class Quantity:
    """A score: what it is called and how it is written."""

    title: str
    hint: str
    factor: float = 1.0
    digits: int = 1
    unit: str = ""

    @property
    def heading(self) -> str:
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, mean: float, spread: float | None = None) -> str:
        values = [value * self.factor for value in (mean, spread) if value is not None]
        return " ± ".join(f"{value:.{self.digits}f}" for value in values)


QUANTITIES = {
    "ari": Quantity("ARI", "agreement with the true objects; 1 is perfect, 0 is chance", digits=3),
    "mse": Quantity("MSE", "squared error of the reconstruction", factor=1e4, unit="× 10⁻⁴"),
    "kl_refined": Quantity("KL", "information in the last posterior", unit="nats"),
    "explained": Quantity("Explained", "share of the image's variance", factor=100, unit="%"),
    "slots_used": Quantity("Slots in use", "slots that own at least 1 % of the pixels", digits=2),
    "ari_with_background": Quantity("ARI with background", "the background counts as an object", digits=3),
    "miou": Quantity("Mean IoU", "overlap with the slot that matching gives an object", digits=3),
    "mbo": Quantity("Mean best overlap", "overlap with the slot that covers an object best", digits=3),
    "kl_hierarchical": Quantity("KL of all layers", "of the first stage", unit="nats"),
    "nll": Quantity("NLL", "negative log-likelihood, without its constant", unit="nats"),
}
HEADLINE = ("ari", "mse", "kl_refined", "explained", "slots_used")


def dataset_title(run: Run) -> str:
    return DATASET_TITLES.get(run.dataset, run.dataset)
