"""METRICS: every number that is measured of a model, with its title, its meaning and how it is written.

The console, JSON files, reports, charts, tables and progress lines all read this. To add a score, write a function of
an `Answer` that returns one value per image, and add an entry.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from torch import Tensor

from emorl.evaluation import segmentation
from emorl.types import Decomposition, Outcome, Scene


@dataclass(frozen=True)
class Answer:
    """One pass of a model over a batch of B scenes, to be scored."""

    outcome: Outcome
    scenes: Scene

    @property
    def decomposition(self) -> Decomposition:
        """The model's answer: the last of the decompositions it went through."""
        return self.outcome.steps[-1]

    @cached_property
    def segmentations(self) -> tuple[Tensor, Tensor]:
        """Predicted and true segmentation, (B, H, W) each."""
        return segmentation.comparable(self.decomposition, self.scenes)

    @cached_property
    def segmentations_by_colour(self) -> tuple[Tensor, Tensor]:
        """The same, where a pixel goes to the slot whose mask and colour together explain it best."""
        return self.decomposition.segmentation_of(self.scenes.image), self.scenes.segmentation

    @cached_property
    def overlaps(self) -> dict[str, Tensor]:
        """Intersections over unions of objects with slots: "miou" and "mbo"."""
        return segmentation.overlap_scores(*self.segmentations)


@dataclass(frozen=True)
class Metric:
    """What a number is called, what it means, and how it is written."""

    title: str
    meaning: str  # one line, for a reader who sees it for the first time
    digits: int = 1  # after the point
    factor: float = 1.0  # numbers are multiplied by it when they are written
    unit: str = ""
    direction: Literal["up", "down"] | None = None  # in which direction it gets better, if one can say
    needs_masks: bool = False  # whether it compares with true masks, which not every data set has
    # "first": wherever scores are shown; "charts": also in tiles, charts and sweeps; "all": in full lists only.
    shown: Literal["first", "charts", "all"] = "all"
    # Returns one value per image, (B,). None: a term that models log, or what is measured by a function of its own.
    compute: Callable[[Answer], Tensor] | None = None

    @property
    def heading(self) -> str:
        """The title, with the unit if there is one."""
        return f"{self.title} ({self.unit})" if self.unit else self.title

    def text(self, mean: float, spread: float | None = None) -> str:
        """A value, and its spread if there is one, as they are printed under the heading."""
        values = [value * self.factor for value in (mean, spread) if value is not None]
        return " ± ".join(f"{value:.{self.digits}f}" for value in values)


def mean_squared_error(answer: Answer) -> Tensor:
    """Of the reconstruction, over pixels and channels."""
    return (answer.decomposition.image - answer.scenes.image).square().mean(dim=(1, 2, 3))


def explained_variance(answer: Answer) -> Tensor:
    """1 for a perfect reconstruction, 0 for an image of one colour."""
    variance = answer.scenes.image.flatten(2).var(dim=2, correction=0).mean(dim=1)
    return 1 - mean_squared_error(answer) / variance.clamp_min(1e-12)


def slots_used(answer: Answer) -> Tensor:
    """Number of slots that own at least 1 % of the pixels."""
    return segmentation.used_slots(answer.decomposition.segmentation, answer.decomposition.masks.shape[1])


METRICS: dict[str, Metric] = {
    # Scores of an answer
    "ari": Metric(
        "ARI", "agreement with the true objects, background left out; 1 is perfect, 0 is chance", 3,
        direction="up", needs_masks=True, shown="first",
        compute=lambda answer: segmentation.adjusted_rand_index(*answer.segmentations),
    ),
    "ari_with_background": Metric(
        "ARI with background", "the same with the background as one more object; low where slots share it", 3,
        direction="up", needs_masks=True, shown="first",
        compute=lambda answer: segmentation.adjusted_rand_index(*answer.segmentations, ignore=None),
    ),
    "miou": Metric(
        "Mean IoU", "overlap of each object with the slot that a one-to-one matching gives it", 3,
        direction="up", needs_masks=True, shown="first", compute=lambda answer: answer.overlaps["miou"],
    ),
    "mse": Metric(
        "MSE", "squared error of the reconstruction", 1, 1e4, "× 10⁻⁴",
        direction="down", shown="first", compute=mean_squared_error,
    ),
    "slots_used": Metric(
        "Slots used", "slots that own at least 1 % of the pixels", 2, shown="first", compute=slots_used
    ),
    "ari_by_colour": Metric(
        "ARI by mask and colour", "ARI where a pixel goes to the slot whose mask and colour explain it best", 3,
        direction="up", needs_masks=True,
        compute=lambda answer: segmentation.adjusted_rand_index(*answer.segmentations_by_colour),
    ),
    "miou_by_colour": Metric(
        "Mean IoU by mask and colour", "mean IoU of the same: outlines are exact where colours differ", 3,
        direction="up", needs_masks=True,
        compute=lambda answer: segmentation.overlap_scores(*answer.segmentations_by_colour)["miou"],
    ),
    "ari_precision": Metric(
        "ARI precision", "are two pixels of one slot of one object? Low where slots hold several objects", 3,
        direction="up", needs_masks=True,
        compute=lambda answer: segmentation.adjusted_precision_recall(*answer.segmentations)[0],
    ),
    "ari_recall": Metric(
        "ARI recall", "are two pixels of one object in one slot? Low where objects are split", 3,
        direction="up", needs_masks=True,
        compute=lambda answer: segmentation.adjusted_precision_recall(*answer.segmentations)[1],
    ),
    "mbo": Metric(
        "Mean best overlap", "overlap of each object with the slot that covers it best", 3,
        direction="up", needs_masks=True, compute=lambda answer: answer.overlaps["mbo"],
    ),
    "explained": Metric(
        "Explained", "share of the image's variance that the reconstruction explains", 1, 100, "%",
        direction="up", compute=explained_variance,
    ),
    # Terms that models log
    "kl": Metric("KL", "information in the slots: divergence of posterior and prior", unit="nats", shown="charts"),
    "kl_hierarchical": Metric("KL of all layers", "the KL summed over the layers of stage 1", unit="nats"),
    "kl_mask": Metric("KL of the masks", "the part of the KL that masks need", unit="nats"),
    "kl_component": Metric("KL of the components", "the part of the KL that appearances need", unit="nats"),
    "mask_kl": Metric("KL between masks", "how far decoded masks are from those of the attention network", unit="nats"),
    "nll": Metric("NLL", "negative log-likelihood of the image, without its constant", unit="nats", direction="down"),
    "nll_stage1": Metric("NLL after stage 1", "the NLL before any refinement", unit="nats", direction="down"),
    "error": Metric("Training error", "squared error on the scale from -1 to 1", 4, direction="down"),
    "loss": Metric("Loss", "what training minimises", direction="down"),
    "nll_weight": Metric("Weight of the NLL", "set by GECO, or by the configuration", 3),
    "kl_weight": Metric("Weight of the KL", "set by GECO or a ramp, or by the configuration", 3),
    "variance": Metric("Variance of the images", "what GECO's automatic target is measured by", 4),
    # Measured by functions of their own: evaluation/dci.py, latents.py, sweeps.py
    "dci_disentanglement": Metric(
        "Disentanglement", "does a dimension of a slot serve one factor only? From 0 to 1", 2, direction="up"
    ),
    "dci_completeness": Metric(
        "Completeness", "is a factor held by one dimension only? From 0 to 1", 2, direction="up"
    ),
    "dci_accuracy": Metric("Accuracy, discrete factors", "how often slots tell them right", 2, direction="up"),
    "dci_r2": Metric("R², continuous factors", "how well slots tell them", 2, direction="up"),
    "dci_informativeness_published": Metric(
        "Informativeness, as published", "the paper's definition, which counts a continuous factor as 0", 2,
        direction="up",
    ),
    "dci_objects": Metric("Objects", "that a slot was matched with, on which the DCI scores rest", 0),
    "leakage": Metric(
        "Leakage", "change outside the mask of an edited slot, as a share of that inside", 1, 100, "%", direction="down"
    ),
    "active": Metric("Active dimensions", "of a slot: those that change the image", 1),
    "agreement": Metric("Agreement", "ARI of several inferences of one image with one another", 3, direction="up"),
    "cpu_minutes": Metric("CPU minutes", "of training, all threads together", 0, direction="down"),
}  # fmt: skip

# Terms that a model numbers by layer or step. "{}" is the number.
FAMILIES: dict[str, Metric] = {
    "kl": Metric("KL of layer {}", "divergence of posterior and prior of this layer of stage 1", unit="nats"),
    "update": Metric(
        "Refinement update {}", "L2 norm of what this refinement adds to the slots' posteriors", 2
    ),
}
RENAMED = {"kl_refined": "kl"}  # in files of older versions, by their names today
VALIDATION = "validation_"  # before the names of validation scores in metrics.jsonl


def metric(name: str) -> Metric:
    """The entry of `name`, be it one of METRICS, of a numbered family, a validation score, or unknown."""
    if name in METRICS:
        return METRICS[name]
    if name.startswith(VALIDATION):
        found = metric(name.removeprefix(VALIDATION))
        return replace(found, title=f"Validation {found.title}")
    numbered = re.fullmatch(r"(\w+?)_(\d+)", name)
    if numbered and numbered[1] in FAMILIES:
        found = FAMILIES[numbered[1]]
        return replace(found, title=found.title.format(numbered[2]))
    return Metric(name.replace("_", " ").capitalize(), "", 4)


def shown_first(names: Iterable[str]) -> list[str]:
    """Those of `names` that a person wants to see first."""
    return [name for name in names if metric(name).shown == "first"]


def shown_in_charts(names: Iterable[str]) -> list[str]:
    """Those of `names` that tiles, charts and sweeps show."""
    return [name for name in names if metric(name).shown != "all"]


def renamed(values: Mapping[str, float]) -> dict[str, float]:
    """A record of an older version with the names of today."""
    today = RENAMED | {VALIDATION + old: VALIDATION + new for old, new in RENAMED.items()}
    return {today.get(name, name): value for name, value in values.items()}


def score(outcome: Outcome, scenes: Scene, *, has_masks: bool) -> dict[str, Tensor]:
    """Every score of METRICS and every logged term of a pass, in the order of METRICS: name -> (B,), on the CPU."""
    answer = Answer(outcome, scenes)
    scores = {
        name: one.compute(answer)
        for name, one in METRICS.items()
        if one.compute is not None and (has_masks or not one.needs_masks)
    }
    for name, term in outcome.terms.items():
        scores[name] = term.expand(len(scenes.image))
    known = [name for name in METRICS if name in scores]
    return {name: scores[name].float().cpu() for name in dict.fromkeys([*known, *scores])}
