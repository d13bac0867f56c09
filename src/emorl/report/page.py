"""build_page(): all a report says of some runs, in the order it says it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from emorl.data.base import SceneDataset
from emorl.evaluation.evaluate import evaluate
from emorl.report.galleries import inference_section, scenes_section
from emorl.report.groups import Extent, Group, Scored, Stage, groups_of, written
from emorl.report.html import Page
from emorl.report.probes import disentanglement_section, latent_section, steps_section
from emorl.report.sections import (
    again_section,
    learning_section,
    paper_section,
    runs_section,
    settings_section,
    tiles,
)
from emorl.runs.run import Run


def build_page(
    runs: Sequence[tuple[Run, SceneDataset]],
    extent: Extent,
    *,
    stage: Stage,
    commands: Sequence[str],
    footer: str,
) -> Page:
    """Scores runs on held-out scenes, looks at the first of each group more closely, and composes it all."""
    scored = []
    for run, scenes in runs:
        with stage(f"scoring {run.label}") as progress:
            scores = evaluate(run.model, scenes, images=extent.images, progress=progress)
        scored.append(Scored(run, scenes, scores))
    groups = groups_of(scored)
    extent = extent.affordable(max(scored, key=lambda one: one.scenes.info.image_size))
    numbers, note = tiles(groups)
    sections = [
        paper_section(groups),
        scenes_section(groups, extent),
        runs_section(groups),
        learning_section(groups, scored[0].published if len({one.dataset for one in scored}) == 1 else {}),
        inference_section(groups),
        latent_section(groups, extent, stage),
        steps_section(groups, extent, stage),
        disentanglement_section(groups, extent, stage),
        settings_section(groups),
        again_section(scored, commands),
    ]
    kept = [section for section in sections if section is not None]
    return Page(title_of(groups), "emorl report", lead_of(groups), numbers, note, kept, footer)


def title_of(groups: Sequence[Group]) -> str:
    """Systems and data sets."""
    systems = dict.fromkeys(group.first.system for group in groups)
    datasets = dict.fromkeys(group.first.dataset_title for group in groups)
    return f"{listed(list(systems))} on {listed(list(datasets))}"


def listed(names: Sequence[str]) -> str:
    """ "a, b and c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def lead_of(groups: Sequence[Group]) -> str:
    """What was trained, how, and how it was judged."""
    members = [one for group in groups for one in group.members]
    run, scores = members[0].run, members[0].scores
    who = f"{run.label}" if len(members) == 1 else f"{len(members)} runs"
    if len(groups) > 1:
        who += f" of {len(groups)} configurations"
    facts = []
    if len(groups) == 1:
        size = sum(parameter.numel() for parameter in run.model.parameters())
        facts.append(f"{members[0].steps} training steps of {run.config.train.batch_size} images")
        minutes = [one.run.cpu_minutes for one in members if one.run.cpu_minutes is not None]
        if minutes and mean(minutes) >= 1:
            facts[-1] += f", {mean(minutes):.0f} CPU minutes{'' if len(minutes) == 1 else ' each'}"
        facts.append(f"{written(size)} parameters")
        facts.append(f"{scores.settings['num_slots']} slots")
    if stopped := [one for one in members if one.is_stopped]:
        which = "training was" if len(members) == 1 else ", ".join(one.run.label for one in stopped)
        was = "" if len(members) == 1 else (" was" if len(stopped) == 1 else " were")
        facts.append(f"{which}{was} stopped at step {', '.join(one.steps for one in stopped)}")
    facts.append(f"scored on {scores.settings['images']} held-out scenes, one inference each")
    return f"{who}: {'; '.join(facts)}."
