"""Figure 7: other numbers of refinements, and of objects, than in training."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from emorl.data import open_dataset
from emorl.data.base import SceneDataset
from emorl.evaluation.sweeps import sweep
from emorl.experiments.base import Experiment, Job, row_of
from emorl.experiments.results import Row
from emorl.experiments.scales import of_presets, systems
from emorl.experiments.tables import mean_by_value
from emorl.plots.files import save_chart
from emorl.plots.lines import score_chart
from emorl.runs.run import Run

TEST_STEPS = range(7)  # I at test time
IMAGES = 128  # scenes of each kind: there are fourteen settings, and K=11 slots take half a second a scene
SCORES = ("ari", "ari_with_background", "miou", "mse", "kl_hierarchical", "kl")
# Scenes with more objects than a model has learned from, and the slots to give it then.
CROWDED = {
    "clevr6": ("clevr10", 11),
    "clevr6-fast": ("clevr10-fast", 11),
    "tetrominoes": ("tetrominoes-crowded", 7),
}


def measure(job: Job) -> Iterator[Row]:
    """Yields the scores for each number of refinements at test time, also with more objects than in training."""
    for run in job.trained:
        for scenes, K, where in settings_of(run):
            for found in sweep(run.model, scenes, "num_steps", TEST_STEPS, num_slots=K, images=IMAGES):
                I = found["value"]
                yield row_of(
                    run,
                    {"I": I} | {name: found[name] for name in SCORES if name in found},
                    scenes=f"{min(IMAGES, len(scenes))} of test, {where}, I={I}",
                    label=f"{run.label}, {where}, I={I}",
                )


def settings_of(run: Run) -> Iterator[tuple[SceneDataset, int | None, str]]:
    """Yields (scenes, K, name): test scenes as in training (K None), and crowded ones if the data set has any."""
    yield run.scenes("test"), None, "as trained"
    name = run.config.data.name
    if name in CROWDED:
        crowded, K = CROWDED[name]
        yield (
            open_dataset(replace(run.config.data, name=crowded, path=None), "test"),
            K,
            f"more objects, K={K}",
        )


def draw(trained: Sequence[Run], rows: Sequence[Row], path: Path) -> None:
    """Draws each score against I at test time, a line for each training and kind of scenes."""
    curves: dict[str, list[dict[str, float]]] = {}
    for row in rows:
        curves.setdefault(row.label.rsplit(",", 1)[0], []).append({"value": row.values["I"], **row.values})
    means = {label: mean_by_value(points, SCORES) for label, points in curves.items()}
    save_chart(score_chart(means, label="I at test time", names=SCORES), path)


EXPERIMENT = Experiment(
    "Refinements and objects at test time",
    measure,
    SCORES,
    paper="I = 0 keeps 99 % of ARI and has a higher KL; more objects than in training cost little.",
    protocol=of_presets,
    from_weights=True,
    runs=lambda scale: systems(scale, ("clevr6",), ("efficient-morl",), long="instead"),
    draw=draw,
)
