"""Glossary: answers that are wrong in one way each, and what every score says of them. The page about scores."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from emorl.data import DataConfig, open_dataset
from emorl.evaluation.metrics import METRICS, Metric
from emorl.evaluation.segmentation import (
    adjusted_precision_recall,
    adjusted_rand_index,
    overlap_scores,
    used_slots,
)
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import table
from emorl.panels import Panels, segmentation_pixels
from emorl.plots.files import save_picture
from emorl.plots.scenes import scene_row
from emorl.types import Scene

SCENE = 0  # of the test scenes of Tetrominoes
SLOTS = 6  # more than the scene needs, so that spare ones can do harm
SCORES = ("ari", "ari_with_background", "miou", "mbo", "ari_precision", "ari_recall", "slots_used")


def grown(true: Tensor, pixels: int) -> Tensor:
    """Objects of a segmentation (H, W) that grow into the background by `pixels`; nearer ones first."""
    found = true.clone()
    for _ in range(pixels):
        larger = F.max_pool2d(found[None].float(), 3, stride=1, padding=1)[0].long()
        found = torch.where(found == 0, larger, found)
    return found


def answers(true: Tensor) -> dict[str, Tensor]:
    """What was done to the truth -> the segmentation that comes of it, (H, W) with ids below SLOTS."""
    columns = torch.arange(true.shape[1]).expand_as(true)
    first = true == 1
    left = columns < columns[first].float().mean()
    halves = torch.where(left, 0, SLOTS - 1)  # of the background
    return {
        "exact": true,
        "masks two pixels too wide": grown(true, 2),
        "objects share the background": grown(true, max(true.shape)),
        "background in two slots": torch.where(true == 0, halves, true),
        "one object in two slots": torch.where(first & left, SLOTS - 1, true),
        "two objects in one slot": torch.where(true == 2, 1, true),
        "stripes": columns * SLOTS // true.shape[1],
    }


def example() -> Scene:
    """The scene that all answers are about."""
    return open_dataset(DataConfig("tetrominoes"), "test")[SCENE]


def scores_of(predicted: Tensor, true: Tensor) -> dict[str, float]:
    """Every score of SCORES of one segmentation (H, W)."""
    pair = predicted[None], true[None]
    precision, recall = adjusted_precision_recall(*pair)
    found = {
        "ari": adjusted_rand_index(*pair),
        "ari_with_background": adjusted_rand_index(*pair, ignore=None),
        **overlap_scores(*pair),
        "ari_precision": precision,
        "ari_recall": recall,
        "slots_used": used_slots(predicted[None], SLOTS),
    }
    return {name: round(float(found[name]), 4) for name in SCORES}


def measure(job: Job) -> Iterator[Row]:
    """Yields the scores of each answer."""
    true = example().segmentation.long()
    for what, predicted in answers(true).items():
        yield Row(what, scores_of(predicted, true))


def sections(result: Result) -> dict[str, str]:
    """The table of answers, and all scores with their meanings."""
    rows = [[row.label, *(METRICS[name].text(row.values[name]) for name in SCORES)] for row in result.rows]
    meanings = [[f"`{name}`", one.heading, one.meaning, better(one)] for name, one in METRICS.items()]
    return {
        "docs/metrics.md#answers": table(["answer", *(METRICS[name].title for name in SCORES)], rows),
        "docs/metrics.md#meanings": table(["name in files", "title", "meaning", "better"], meanings),
    }


def better(one: Metric) -> str:
    """Which way a score improves, in a word."""
    return {"up": "higher", "down": "lower", None: ""}[one.direction]


def illustrate(result: Result, pictures: Path) -> None:
    """Every answer beside the truth, with the two scores that people quote."""
    scene = example()
    drawn = answers(scene.segmentation.long())
    found = {row.label: row.values for row in result.rows}
    rows = [
        [*scene_row(scene), segmentation_pixels(predicted, has_background=True)]
        for predicted in drawn.values()
    ]
    labels = [f"{what}: ARI {found[what]['ari']:.2f}, mIoU {found[what]['miou']:.2f}" for what in drawn]
    save_picture(Panels(rows, labels, ("image", "truth", "answer")), pictures / "glossary.png")


EXPERIMENT = Experiment(
    "What each score says of answers that are wrong in one way each",
    measure,
    SCORES,
    protocol="one Tetrominoes scene whose true segmentation is spoiled by hand",
    illustrate=illustrate,
    sections=sections,
)
