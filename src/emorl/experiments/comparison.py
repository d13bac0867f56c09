"""Comparison: every system's preset on the same data and machine, with scores, curves, costs and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from emorl.data import info_of
from emorl.evaluation.cost import Pass, peak_memory
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.latents import leakage
from emorl.experiments.base import Experiment, Job, means, row_of
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import of_presets, systems
from emorl.experiments.tables import count, table
from emorl.models import build
from emorl.plots.lines import score_chart
from emorl.plots.panels import Panels, save_picture
from emorl.plots.pictures import decomposition_row
from emorl.plots.style import save_chart
from emorl.report.published import PUBLISHED_ARI, SYSTEMS
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run

DATASETS = ("tetrominoes", "multi-dsprites")
SCORES = ("ari", "ari_with_background", "miou", "mse", "slots_used")
NAMES = {title: name for name, title in SYSTEMS.items()}
SCENES = (0, 1)  # of the test scenes, in the pictures
HEAD = (
    "system", "ARI", "mean IoU", "MSE (1e-4)", "slots used", "leakage", "steps", "CPU minutes (wall clock)",
    "peak memory of a pass, MiB", "parameters", "paper: ARI", "paper: steps",
)  # fmt: skip


def measure(job: Job) -> Iterator[Row]:
    """What each run reached on the held-out scenes, and what that cost."""
    for run in job.trained:
        batch = run.config.train.batch_size
        scores = evaluate(run.model, run.scenes("test"))
        (memory,) = peak_memory([Pass(partial(build, run.config.model), batch, training=True)])
        values = {
            **means(scores, *SCORES),
            "ari_standard_error": scores.standard_error("ari"),
            "images": scores.settings["images"],
            "leakage": leakage(run.model, run.scenes("test")).image,
            "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
            "batch_size": batch,
            "wall_clock_minutes": round(run.metrics[-1]["seconds"] / 60, 1),
            "training_pass_mib": round(memory / 2**20),
        }
        yield row_of(run, values, scenes="test", curve=run.curve("ari", "mse", "slots_used"))


def parts(label: str) -> tuple[str, str]:
    """The system and the data set of a row."""
    system, _, dataset = label.partition(", ")
    return system, dataset


def on(dataset: str, result: Result) -> list[Row]:
    """The rows of one data set."""
    return [row for row in result.rows if parts(row.label)[1] == info_of(dataset).title]


def sections(result: Result) -> dict[str, str]:
    """A table for each data set."""
    found = {}
    for dataset in DATASETS:
        lines = []
        for row in on(dataset, result):
            v, kind = row.values, NAMES[parts(row.label)[0]]
            paper = PUBLISHED_ARI.get((kind, dataset))
            lines.append([
                parts(row.label)[0], f"{v['ari']:.3f} ± {v['ari_standard_error']:.3f}", f"{v['miou']:.2f}",
                f"{1e4 * v['mse']:.0f}", f"{v['slots_used']:.1f}", f"{v['leakage']:.0%}", count(row.steps),
                f"{row.cpu_minutes:.0f} ({v['wall_clock_minutes']:.0f})", f"{v['training_pass_mib']}",
                f"{v['parameters'] / 1000:.0f} K", f"{paper.mean:.3f} ± {paper.sd:.3f}" if paper else "",
                count(PRESETS[f"{kind}/{dataset}-paper"].train.steps) if paper else "",
            ])  # fmt: skip
        found[f"docs/comparison.md#{dataset}"] = table(HEAD, lines)
    return found


def illustrate(result: Result, pictures: Path) -> None:
    """ARI and MSE on validation scenes against the CPU minutes of training."""
    for dataset in DATASETS:
        curves = {parts(row.label)[0]: row.curve for row in on(dataset, result)}
        chart = score_chart(curves, label="CPU minutes", x="cpu_minutes", names=("ari", "mse"), log=("mse",))
        save_chart(chart, pictures / f"comparison-{dataset}-curves.png")


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """The same scenes taken apart by each system, a picture for each data set."""
    for dataset in dict.fromkeys(run.config.data.name for run in trained):
        panels, labels = [], []
        for run in (run for run in trained if run.config.data.name == dataset):
            scenes = run.scenes("test")
            for index in SCENES:
                panels.append(
                    decomposition_row(scenes[index].image, decompose_scene(run.model, scenes, index))
                )
                labels.append(parts(run.label)[0])
        titles = ["image", "rebuilt", "masks", *(f"slot {k}" for k in range(len(panels[0]) - 3))]
        picture = Panels(panels, labels, titles, slots_from=3).drawn()
        save_picture(picture, path.with_name(f"{path.stem}-{dataset}.png"))


EXPERIMENT = Experiment(
    "Every system, half an hour each",
    measure,
    SCORES,
    paper="EfficientMORL is on a par with Slot Attention, IODINE and MONet.",
    protocol=of_presets,
    runs=lambda scale: systems(scale, DATASETS, seeds=(0,)),
    draw=draw,
    illustrate=illustrate,
    sections=sections,
)
