"""The sections of a report that try a model out: its latents moved, other numbers of steps, disentanglement."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from emorl.errors import UserError
from emorl.evaluation.activeness import Activeness, activeness, latent_ranges, widest
from emorl.evaluation.sweeps import Row, sweep_steps
from emorl.probability import noise_from, noise_per_image
from emorl.plots.style import COLORS, sweep_panel
from emorl.report.galleries import clear_scene, headed
from emorl.report.html import Block, Charts, Line, Part, Section, Table, animation, drawing, pictures
from emorl.plots.maps import activeness_map, importance_matrix
from emorl.report.published import PUBLISHED_DCI
from emorl.report.runs import QUANTITIES, Extent, Group, Run, Scored, Stage
from emorl.plots.traversals import traversal_frames, traversal_panels, traverse

STEPS = range(7)  # I of the sweep
DCI_TITLES = {
    "disentanglement": "Disentanglement",
    "completeness": "Completeness",
    "accuracy": "Accuracy, discrete factors",
    "r2": "R², continuous factors",
    "informativeness_published": "Informativeness, as published",
}


def latent_section(groups: Sequence[Group], extent: Extent, stage: Stage) -> Section:
    parts = []
    for group in groups:
        run = group.first.run
        found: Activeness | None = None
        if extent.probed:
            with stage(f"moving the latents of {run.name}") as progress:
                found = activeness(run.model, run.scenes, images=extent.probed, progress=progress)
        ranges = latent_ranges(run.model, run.scenes, images=extent.swept) if found is None else found.ranges
        dims = widest(ranges, extent.dims) if found is None else found.order[: extent.dims]
        blocks = moving_pictures(group.first, ranges, dims, has_map=found is not None)
        if found is not None:
            chart = activeness_map(found.values.tolist(), found.active)
            alt = f"Activeness of {len(found.values)} dimensions"
            caption = (
                f"{len(found.active)} of {len(found.values)} dimensions are active (framed): moving one is visible. "
                f"Brightness is the root of the mean image variance over {extent.probed} scenes."
            )
            blocks.insert(1, Charts([drawing(chart, alt=alt)], caption, title="Active dimensions", span=5))
        parts.append(blocks)
    prose = (
        "One number of one slot moves from the least to the greatest value it takes anywhere; all else stays. "
        "In a good code each number has a meaning of its own: a place, a colour, a shape."
    )
    return Section("latents", "What the numbers mean", prose, headed(groups, parts))


def moving_pictures(one: Scored, ranges: Tensor, dims: Sequence[int], *, has_map: bool) -> list[Block]:
    run, scene = one.run, clear_scene(one)
    x = run.scenes[scene].image[None].to(next(run.model.parameters()).device)
    with noise_from(noise_per_image([scene])):
        found = run.model.decompose(x)
    smooth = traverse(run.model, found, ranges, dims, values=16)
    coarse = traverse(run.model, found, ranges, dims, values=9, slot=smooth.slot)
    names = ", ".join(f"z{d}" for d in dims)
    return [
        animation(
            traversal_frames(smooth),
            title="In motion",
            alt=f"Scene {scene} while {names} of slot {smooth.slot} move, one in each panel",
            caption=f"Slot {smooth.slot} of scene {scene}; each panel moves one dimension.",
        ),
        pictures(
            traversal_panels(coarse),
            title="In rows",
            alt=f"Scene {scene} for nine values of {names} of slot {smooth.slot}",
            caption="Each row moves one dimension, from its least value on the left to its greatest.",
            span=7 if has_map else 12,
        ),
    ]


def steps_section(groups: Sequence[Group], extent: Extent, stage: Stage) -> Section | None:
    """Scores against I at test time; None where no model refines."""
    curves: list[tuple[str, list[Row]]] = []
    legend: list[tuple[str, str]] = []
    for g, group in enumerate(groups):
        try:
            with stage(f"refining with {group.first.run.name}") as progress:
                options: Any = {"images": extent.swept, "progress": progress}
                rows = sweep_steps(group.first.run.model, group.first.run.scenes, STEPS, **options)
        except UserError:  # a model that is not iterative
            continue
        curves.append((COLORS[g % len(COLORS)], rows))
        legend.append((COLORS[g % len(COLORS)], group.label))
    if not curves:
        return None
    usual = groups[0].first.scores.settings["num_steps"] if len(groups) == 1 else None
    drawings = [
        drawing(sweep_panel(curves, name, usual=usual, title=QUANTITIES[name].heading,
                            factor=QUANTITIES[name].factor, xlabel="refinements I"),
                alt=f"{QUANTITIES[name].title} against the number of refinements")
        for name in ("ari", "mse", "kl_refined")
        if all(name in row for _, rows in curves for row in rows)
    ]  # fmt: skip
    caption = f"{extent.swept} scenes; the band is the standard error."
    caption += " Dotted: the number that the model is configured for." if usual is not None else ""
    prose = (
        "The same weights with other numbers of refinement steps at test time; 0 is the first stage alone."
    )
    block = Charts(drawings, caption, legend if len(groups) > 1 else [])
    return Section("steps", "More refinement, or less", prose, [Part([block])])


def disentanglement_section(groups: Sequence[Group], extent: Extent, stage: Stage) -> Section | None:
    """DCI, where it was asked for and objects have known factors."""
    if extent.dci == "no":
        return None
    from emorl.evaluation.dci import evaluate_dci  # here, because scikit-learn takes a second to import

    kept: list[Group] = []
    parts: list[list[Block]] = []
    for group in groups:
        run = group.first.run
        with stage(f"growing trees for {run.name}"):
            try:
                found = evaluate_dci(run.model, run.scenes, images=extent.images, fast=extent.dci == "fast")
            except UserError as error:  # no known factors, or too few objects
                warnings.warn(f"The report has no DCI of {run.name}: {error}", stacklevel=2)
                continue
        chart = importance_matrix(found.importance.tolist(), found.factors)
        alt = f"Importance of dimensions for {', '.join(found.factors)}"
        caption = f"What each dimension contributes to each factor; {found.objects} objects."
        parts.append([Charts([drawing(chart, alt=alt)], caption, span=7), dci_table(run, found.summary())])
        kept.append(group)
    if not parts:
        return None
    prose = (
        "Trees that predict an object's factors from its slot: how much each dimension (row) helps with each factor "
        "(column). One bright cell in a row is a dimension with one meaning."
    )
    return Section("dci", "Dimensions and factors", prose, headed(kept, parts))


def dci_table(run: Run, scores: Mapping[str, float]) -> Table:
    """DCI here and, where it is known, in the paper."""
    theirs = PUBLISHED_DCI.get((run.kind, run.dataset), {})
    lines = []
    for name, title in DCI_TITLES.items():
        paper = (
            [f"{theirs[name].mean:.2f} ± {theirs[name].sd:.2f}" if name in theirs else ""] if theirs else []
        )
        lines.append(Line([title, f"{scores[name]:.2f}", *paper]))
    head = ["", "here", *(["paper"] if theirs else [])]
    caption = "The last line is the paper's definition, which counts a continuous factor as 0."
    return Table(head, lines, style="numbers", caption=caption, span=5)
