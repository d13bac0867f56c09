"""Comparison: every system's preset on the same data and machine, with scores, curves, costs and pictures."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

from emorl.data import info_of
from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.evaluation.cost import Pass, peak_memory
from emorl.evaluation.dci import evaluate_dci
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.latents import leakage
from emorl.evaluation.metrics import METRICS
from emorl.experiments.base import Experiment, Job, means, row_of
from emorl.experiments.results import Result, Row
from emorl.experiments.scales import of_presets, paper_steps, system_on, systems
from emorl.experiments.tables import Cells, columns, count
from emorl.models import build
from emorl.panels import Panels
from emorl.plots.files import save_chart, save_picture
from emorl.plots.lines import score_chart
from emorl.plots.scenes import decomposition_row
from emorl.report.paper import PUBLISHED_ARI
from emorl.runs.run import Run

DATASETS = ("tetrominoes", "multi-dsprites", "clevr6")
SCORES = ("ari", "ari_precision", "ari_recall", "ari_with_background", "miou", "mse", "slots_used")
SCENES = (0, 1)  # of the test scenes, in the pictures
CELLS: Cells = {
    "system": lambda row: system_and_data(row.label)[0],
    "ARI": lambda row: f"{row.values['ari']:.3f} ± {row.values['ari_standard_error']:.3f}",
    "precision, recall": lambda row: two_scores(row, "ari_precision", "ari_recall"),
    "mean IoU": lambda row: f"{row.values['miou']:.2f}",
    "MSE (1e-4)": lambda row: f"{1e4 * row.values['mse']:.0f}",
    "slots used": lambda row: f"{row.values['slots_used']:.1f}",
    "leakage": lambda row: f"{row.values['leakage']:.0%}",
    "DCI: D, C": lambda row: two_scores(row, "dci_disentanglement", "dci_completeness"),
    "steps": lambda row: count(row.steps),
    "CPU minutes (wall clock)": lambda row: f"{row.cpu_minutes:.0f} ({row.values['wall_clock_minutes']:.0f})",
    "peak memory of a pass, MiB": lambda row: f"{row.values['training_pass_mib']}",
    "parameters": lambda row: f"{row.values['parameters'] / 1000:.0f} K",
}


def two_scores(row: Row, *names: str) -> str:
    """Two scores in one cell; older rows do not have them."""
    return ", ".join(f"{row.values[name]:.2f}" for name in names if name in row.values)


def measure(job: Job) -> Iterator[Row]:
    """What each run reached on the held-out scenes, and what that cost."""
    for run in job.trained:
        batch, scenes = run.config.train.batch_size, run.scenes("test")
        scores = evaluate(run.model, scenes)
        (memory,) = peak_memory([Pass(partial(build, run.config.model), batch, training=True)])
        values = {
            **means(scores, *SCORES),
            "ari_standard_error": scores.standard_error("ari"),
            "images": scores.settings["images"],
            "leakage": leakage(run.model, scenes).image,
            **disentanglement(run, scenes),
            "parameters": sum(parameter.numel() for parameter in run.model.parameters()),
            "batch_size": batch,
            "wall_clock_minutes": round(run.metrics[-1]["seconds"] / 60, 1),
            "training_pass_mib": round(memory / 2**20),
        }
        yield row_of(run, values, scenes="test", curve=run.curve("ari", "mse", "slots_used"))


def disentanglement(run: Run, scenes: SceneDataset) -> dict[str, float]:
    """The first two halves of DCI; nothing for a run that finds no objects."""
    try:
        found = evaluate_dci(run.model, scenes)
    except UserError:
        return {}
    return {"dci_disentanglement": found.disentanglement, "dci_completeness": found.completeness}


def system_and_data(label: str) -> tuple[str, str]:
    """The system and the data set of a row."""
    system, _, dataset = label.partition(", ")
    return system, dataset


def rows_on(dataset: str, result: Result) -> list[Row]:
    """The rows of one data set."""
    return [row for row in result.rows if system_and_data(row.label)[1] == info_of(dataset).title]


def sections(result: Result) -> dict[str, str]:
    """A table for each data set."""
    theirs = {system_on(*key): METRICS["ari"].text(*value[:2]) for key, value in PUBLISHED_ARI.items()}
    steps = paper_steps(PUBLISHED_ARI)
    paper: Cells = {
        "paper: ARI": lambda row: theirs.get(row.label, ""),
        "paper: steps": lambda row: count(steps.get(row.label)),
    }
    return {
        f"docs/comparison.md#{dataset}": columns(rows_on(dataset, result), {**CELLS, **paper})
        for dataset in DATASETS
        if rows_on(dataset, result)
    }


def illustrate(result: Result, pictures: Path) -> None:
    """ARI and MSE on validation scenes against the CPU minutes of training."""
    for dataset in DATASETS:
        if not (rows := rows_on(dataset, result)):
            continue
        curves = {system_and_data(row.label)[0]: row.curve for row in rows}
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
                labels.append(system_and_data(run.label)[0])
        titles = ["image", "rebuilt", "masks", *(f"slot {k}" for k in range(len(panels[0]) - 3))]
        picture = Panels(panels, labels, titles, slots_from=3)
        name = dataset.removesuffix("-fast")  # scenes that are quick to make stand for the paper's
        save_picture(picture, path.with_name(f"{path.stem}-{name}.png"))


EXPERIMENT = Experiment(
    "Every system, at most an hour each",
    measure,
    SCORES,
    paper="EfficientMORL is on a par with Slot Attention, IODINE and MONet.",
    protocol=of_presets,
    runs=lambda scale: systems(scale, DATASETS, seeds=(0,)),
    draw=draw,
    illustrate=illustrate,
    sections=sections,
)
