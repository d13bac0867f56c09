"""The sections of a report that try a model out: its latents moved, other numbers of steps, disentanglement."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from emorl.errors import UserError
from emorl.evaluation.inference import decompose_scene
from emorl.evaluation.latents import Activeness, activeness, latent_ranges, widest
from emorl.evaluation.metrics import metric, shown_in_charts
from emorl.evaluation.sweeps import Row, sweep
from emorl.plots.lines import SMALL, line_chart, score_panels
from emorl.plots.maps import activeness_map, importance_matrix
from emorl.plots.style import COLORS
from emorl.plots.traversals import traversal_frames, traversal_panels, traverse
from emorl.report.galleries import clear_scene, headed
from emorl.report.groups import Extent, Group, Scored, Stage
from emorl.report.html import Block, Charts, Line, Part, Section, Table, animation, drawing, pictures
from emorl.report.nearest_preset import system_of
from emorl.report.paper import PUBLISHED_DCI
from emorl.report.touch import follow

STEPS = range(7)  # I of the sweep


def latent_section(groups: Sequence[Group], extent: Extent, stage: Stage) -> Section:
    """Latents moved one by one, and which of them are active."""
    parts = []
    for group in groups:
        run, scenes = group.first.run, group.first.scenes
        found: Activeness | None = None
        if extent.probed:
            with stage(f"moving the latents of {run.label}") as progress:
                found = activeness(run.model, scenes, images=extent.probed, progress=progress)
        ranges = latent_ranges(run.model, scenes, images=extent.swept) if found is None else found.ranges
        dims = widest(ranges, extent.dims) if found is None else found.order[: extent.dims]
        blocks = moving_pictures(group.first, ranges, dims, has_map=found is not None)
        if found is not None:
            chart = activeness_map(found.values.tolist(), found.active)
            alt = f"Activeness of {len(found.values)} dimensions"
            caption = (
                f"{len(found.active)} of {len(found.values)} dimensions are active (framed): moving one is visible. "
                f"Brightness is the root of the mean image variance over {extent.probed} scenes."
            )
            blocks.insert(2, Charts([drawing(chart, alt=alt)], caption, title="Active dimensions", span=5))
        parts.append(blocks)
    prose = (
        "One number of one slot moves from the least to the greatest value it takes anywhere; all else stays. "
        "In a good code each number has a meaning of its own: a place, a colour, a shape."
    )
    return Section("latents", "What the numbers mean", prose, headed(groups, parts))


def moving_pictures(one: Scored, ranges: Tensor, dims: Sequence[int], *, has_map: bool) -> list[Block]:
    """The most active dimensions of one slot, as an animation and in rows."""
    run, scene = one.run, clear_scene(one)
    found = decompose_scene(run.model, one.scenes, scene)
    smooth = traverse(run.model, found, ranges, dims, values=16)
    coarse = traverse(run.model, found, ranges, dims, values=9, slot=smooth.slot)
    names = ", ".join(f"z{d}" for d in dims)
    return [
        follow(
            smooth,
            title="Under your pointer",
            alt=f"Scene {scene} while {names} of slot {smooth.slot} follow the pointer, one in each panel",
            caption=f"Slot {smooth.slot} of scene {scene}. Go over a panel from left to right, or pull its slider: "
            "each moves one dimension.",
        ),
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
    curves: dict[str, list[Row]] = {}
    colors: list[str] = []
    for g, group in enumerate(groups):
        run, scenes = group.first.run, group.first.scenes
        if run.model.least_steps == 0:
            with stage(f"refining with {run.label}") as progress:
                options: Any = {"images": extent.swept, "progress": progress}
                curves[group.label] = sweep(run.model, scenes, "num_steps", STEPS, **options)
            colors.append(COLORS[g % len(COLORS)])
    if not curves:
        return None
    usual = groups[0].first.scores.settings["num_steps"] if len(groups) == 1 else None
    shared = [name for name in shown_in_charts(groups[0].first.scores.values)
              if all(name in row for rows in curves.values() for row in rows)]  # fmt: skip
    panels = score_panels(curves, label="refinements I", names=shared, colors=colors, usual=usual)
    drawings = [
        drawing(
            line_chart([panel], size=SMALL, legend=()), alt=f"{panel.title} against the number of refinements"
        )
        for panel in panels
    ]
    legend = list(zip(colors, curves, strict=True))
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
        with stage(f"measuring DCI of {run.label}"):
            try:
                found = evaluate_dci(
                    run.model, group.first.scenes, images=extent.images, fast=extent.dci == "fast"
                )
            except UserError as error:  # no known factors, or too few objects
                warnings.warn(f"The report has no DCI of {run.label}: {error}", stacklevel=2)
                continue
        chart = importance_matrix(found.importance.tolist(), found.factors)
        alt = f"Importance of dimensions for {', '.join(found.factors)}"
        caption = f"What each dimension contributes to each factor; {found.objects} objects."
        parts.append(
            [
                Charts([drawing(chart, alt=alt)], caption, span=7),
                dci_table(group.first, found.summary(), is_fast=extent.dci == "fast"),
            ]
        )
        kept.append(group)
    if not parts:
        return None
    prose = (
        "Trees that predict an object's factors from its slot: how much each dimension (row) helps with each factor "
        "(column). One bright cell in a row is a dimension with one meaning."
    )
    return Section("dci", "Dimensions and factors", prose, headed(kept, parts))


def dci_table(one: Scored, scores: Mapping[str, float], *, is_fast: bool) -> Table:
    """DCI here and, where it is known, in the paper."""
    theirs = PUBLISHED_DCI.get((system_of(one.run.config), one.dataset), {})
    lines = []
    for name in (name for name in scores if name != "dci_objects"):
        paper = metric(name).text(*theirs[name][:2]) if name in theirs else ""
        lines.append(
            Line([metric(name).title, metric(name).text(scores[name]), *([paper] if theirs else [])])
        )
    head = ["", "here", *(["paper"] if theirs else [])]
    caption = "The last line is the paper's definition, which counts a continuous factor as 0."
    if is_fast:
        caption += (
            " Fast trees, whose importances are measured by shuffling; the paper's are the exact ones'."
        )
    return Table(head, lines, style="numbers", caption=caption, span=5)
