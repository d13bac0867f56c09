"""build_page(): all a report says of some runs, in the order it says it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from emorl.evaluation.evaluate import evaluate
from emorl.report.galleries import inference_section, scenes_section
from emorl.report.html import Page
from emorl.report.probes import disentanglement_section, latent_section, steps_section
from emorl.report.runs import Extent, Group, Run, Scored, Stage, dataset_title, groups_of, written
from emorl.report.sections import (
    again_section,
    learning_section,
    paper_section,
    runs_section,
    settings_section,
    tiles,
)


def build_page(
    runs: Sequence[Run], extent: Extent, *, stage: Stage, commands: Sequence[str], footer: str
) -> Page:
    """Scores `runs`, looks at the first of each group more closely, and says it all."""
    scored = []
    for run in runs:
        with stage(f"scoring {run.name}") as progress:
            scored.append(
                Scored(run, evaluate(run.model, run.scenes, images=extent.images, progress=progress))
            )
    groups = groups_of(scored)
    costliest = max(scored, key=lambda one: one.run.scenes.info.image_size)
    extent = extent.affordable(costliest.run, costliest.scores.settings["images"])
    numbers, note = tiles(groups)
    sections = [
        paper_section(groups),
        scenes_section(groups, extent),
        runs_section(groups),
        learning_section(groups, runs[0].published if len({run.dataset for run in runs}) == 1 else {}),
        inference_section(groups),
        latent_section(groups, extent, stage),
        steps_section(groups, extent, stage),
        disentanglement_section(groups, extent, stage),
        settings_section(groups),
        again_section(runs, commands),
    ]
    kept = [section for section in sections if section is not None]
    return Page(title_of(groups), "emorl report", lead_of(groups), numbers, note, kept, footer)


def title_of(groups: Sequence[Group]) -> str:
    systems = dict.fromkeys(group.first.run.system for group in groups)
    datasets = dict.fromkeys(dataset_title(group.first.run) for group in groups)
    return f"{listed(list(systems))} on {listed(list(datasets))}"


def listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def lead_of(groups: Sequence[Group]) -> str:
    """What was trained, how, and how it was judged."""
    members = [one for group in groups for one in group.members]
    run, scores = members[0].run, members[0].scores
    who = f"{run.name}" if len(members) == 1 else f"{len(members)} runs"
    if len(groups) > 1:
        who += f" of {len(groups)} configurations"
    facts = []
    if len(groups) == 1:
        size = sum(parameter.numel() for parameter in run.model.parameters())
        facts.append(f"{run.steps} training steps of {run.settings['train']['batch_size']} images")
        minutes = [one.run.cpu_minutes for one in members if one.run.cpu_minutes is not None]
        if minutes and mean(minutes) >= 1:
            facts[-1] += f", {mean(minutes):.0f} CPU minutes{'' if len(minutes) == 1 else ' each'}"
        facts.append(f"{written(size)} parameters")
        facts.append(f"{scores.settings['num_slots']} slots")
    facts.append(f"scored on {scores.settings['images']} held-out scenes, one inference each")
    return f"{who}: {'; '.join(facts)}."
