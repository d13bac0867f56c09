"""emorl figure"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import torch
import tyro

from emorl.cli.options import Device, check_options, choose_device
from emorl.data import Split
from emorl.data.base import SceneDataset
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.latents import activeness, latent_ranges
from emorl.evaluation.metrics import metric
from emorl.files import make_directory, write_bytes
from emorl.models.base import Model
from emorl.plots.files import as_gif, check_chart_file, check_picture_file, save_chart, save_picture, stacked
from emorl.plots.maps import activeness_map, importance_matrix
from emorl.plots.scenes import posterior_panels, scene_panels, worst_by, worst_scenes
from emorl.plots.training import Course, training_chart
from emorl.plots.traversals import check_place, traversal_frames, traversal_panels, traverse
from emorl.runs.directory import METRICS_FILE
from emorl.runs.run import Run
from emorl.training.console import progress_bar, say

FigureName = Literal["decompositions", "posteriors", "traversals", "curves", "activeness", "dci"]
CHARTS = ("curves", "activeness", "dci")  # the others are pictures
DIMS = 8  # of a traversal, unless they are named


@dataclass(frozen=True)
class Request:
    """What to draw of one model, and where to."""

    model: Model
    scenes: SceneDataset
    out: Path
    count: int
    scene: int
    seed: int
    worst: bool
    slot: int | None
    dims: tuple[int, ...]


def figure_command(
    name: tyro.conf.Positional[FigureName],
    runs: tyro.conf.Positional[tuple[str, ...]],
    out: Path,
    scenes: int | None = None,
    scene: int = 0,
    worst: bool = False,
    slot: int | None = None,
    dims: tuple[int, ...] = (),
    seed: int = 0,
    split: Split = "test",
    device: Device = "auto",
) -> None:
    """Draw what a model does, how it learned, or what its latents mean.

    Args:
        name: Scenes taken apart; inference step by step; latent dimensions in motion; metrics against the step;
            which dimensions change the image; which factor of an object each of them stands for.
        runs: Run directory of a training, or the name of released weights; decompositions take several,
            and so do curves, of run directories.
        out: The file to write: .png, for traversals also .gif, for charts also .svg and .pdf.
        scenes: How many to draw (8), or to measure on (100 for activeness and the ranges of traversals, all for dci).
        scene: Which one to look at: posteriors and traversals.
        worst: The scenes with the worst scores instead of the first ones: decompositions.
        slot: Which one to change: traversals. The one that stands out most if left out.
        dims: Which dimensions to go through: traversals. The most active ones if left out.
        seed: Of what is random in inference.
        split: Which scenes.
        device: auto takes a GPU if there is one.
    """
    check_options(scenes=scenes, seed=seed, slot=slot, dims=dims)
    check_kind = check_chart_file if name in CHARTS else check_picture_file
    where = choose_device(device)
    check_kind(out, inputs=[path for run in runs for path in Run.open(run).inputs])
    if name == "curves":
        draw_curves(runs, out)
    elif name == "decompositions" and len(runs) > 1:
        draw_one_below_the_other(runs, out, scenes or 3, seed, split, where)
    else:
        if len(runs) != 1:
            raise UserError(
                f"A figure of {name} is of one run, not of {len(runs)}: emorl figure {name} RUN --out FILE"
            )
        run = Run.open(runs[0])
        model, held_out = run.model.to(where), run.scenes(split)
        if not 0 <= scene < len(held_out):
            raise UserError(f"There is no scene {scene}: those of this split are 0 to {len(held_out) - 1}.")
        count = scenes or {"decompositions": 8, "dci": len(held_out)}.get(name, 100)
        DRAW[name](Request(model, held_out, out, count, scene, seed, worst, slot, dims))
    say(f"Drew {out}.")


def draw_curves(runs: tuple[str, ...], out: Path) -> None:
    """The metrics of training runs against the step."""
    if not runs:
        raise UserError("Name at least one run: emorl figure curves RUN... --out FILE")
    opened = [Run.open(run) for run in runs]
    if absent := [run for run in opened if not run.metrics]:
        raise UserError(f"{absent[0].name} has no {METRICS_FILE}: curves are drawn of run directories.")
    chart = training_chart(Course({run.name: run.metrics for run in opened}))
    if chart is None:
        raise UserError(f"There is nothing to draw yet in {' '.join(runs)}: a curve has two points.")
    save_chart(chart, out)


def draw_one_below_the_other(
    runs: tuple[str, ...], out: Path, count: int, seed: int, split: Split, where: torch.device
) -> None:
    """The first scenes of each run's data set taken apart, in one picture."""
    opened = [Run.open(run) for run in runs]
    pictures = [
        scene_panels(run.model.to(where), run.scenes(split), indices=range(count), seed=seed, sample=True)
        for run in opened
    ]
    save_picture(stacked(pictures), out)


def draw_decompositions(request: Request) -> None:
    """Scenes taken apart: the first ones, or those with the worst scores."""
    chosen, labels = list(range(request.count)), []
    if request.worst:
        with progress_bar("scoring") as progress:
            scores = evaluate(request.model, request.scenes, seed=request.seed, progress=progress)
        chosen = worst_scenes(scores, request.count)
        name = worst_by(scores)
        values = [float(scores.of_images(name)[index]) for index in chosen]
        labels = [f"{metric(name).title} {metric(name).text(value)}" for value in values]
    picture = scene_panels(
        request.model, request.scenes, indices=chosen, labels=labels, seed=request.seed, sample=True
    )
    save_picture(picture, request.out)


def draw_posteriors(request: Request) -> None:
    """One scene, inference step by step."""
    save_picture(
        posterior_panels(request.model, request.scenes, scene=request.scene, seed=request.seed), request.out
    )


def draw_traversals(request: Request) -> None:
    """Dimensions of one slot in motion, as rows or as a GIF."""
    parts = decompose_scene(request.model, request.scenes, request.scene, seed=request.seed)
    check_place(parts, request.slot, request.dims)
    dims = request.dims
    if dims:
        ranges = latent_ranges(request.model, request.scenes, images=request.count)
    else:
        with progress_bar("looking for active dimensions") as progress:
            found = activeness(request.model, request.scenes, images=request.count, progress=progress)
        ranges, dims = found.ranges, tuple(found.order[:DIMS])
    if request.out.suffix.lower() == ".gif":
        moving = traverse(request.model, parts, ranges, dims, slot=request.slot, values=16)
        make_directory(request.out.parent)
        write_bytes(request.out, as_gif([frame.drawn() for frame in traversal_frames(moving)]))
    else:
        save_picture(
            traversal_panels(traverse(request.model, parts, ranges, dims, slot=request.slot)), request.out
        )


def draw_activeness(request: Request) -> None:
    """Which dimensions change the image."""
    with progress_bar("moving latents") as progress:
        found = activeness(
            request.model, request.scenes, images=request.count, seed=request.seed, progress=progress
        )
    save_chart(activeness_map(found.values.tolist(), found.active), request.out)
    say(f"Active, the most active first: {' '.join(f'z{d}' for d in found.active)}")


def draw_dci(request: Request) -> None:
    """Which factor of an object each dimension stands for."""
    from emorl.evaluation.dci import evaluate_dci  # here, because scikit-learn takes a second to import

    say("Measuring DCI ...")
    found = evaluate_dci(request.model, request.scenes, images=request.count, seed=request.seed)
    save_chart(importance_matrix(found.importance.tolist(), found.factors), request.out)


DRAW = {
    "decompositions": draw_decompositions,
    "posteriors": draw_posteriors,
    "traversals": draw_traversals,
    "activeness": draw_activeness,
    "dci": draw_dci,
}
