"""The sections of a report that come from numbers: scores, the paper's table, the course of training, settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emorl.evaluation.metrics import METRICS, metric, shown_in_charts
from emorl.plots.dots import comparison
from emorl.plots.lines import SMALL, line_chart
from emorl.plots.style import COLORS
from emorl.plots.training import Course, training_panels
from emorl.report.groups import Group, Scored, differences, shortened, written
from emorl.report.html import Charts, Commands, Line, Part, Section, Table, Tile, drawing
from emorl.report.nearest_preset import training_command
from emorl.report.paper import PUBLISHED_ARI, SYSTEMS, Published, published
from emorl.runs.config import differing
from emorl.runs.presets import PRESETS

GENERATED = " Scenes are generated anew by the published rules: other images of the same kind."


def tiles(groups: Sequence[Group]) -> tuple[list[Tile], str]:
    """The main scores in large type, and what their spread means."""
    every = shown_in_charts(groups[0].first.scores.values)
    known = [name for name in every if all(name in group.first.scores.values for group in groups)]
    if len(groups) == 1:
        found = [score_tile(name, groups[0]) for name in known]
    else:
        found = [group_tile(group, known) for group in groups]
    return found, spread_note(groups)


def group_tile(group: Group, names: Sequence[str]) -> Tile:
    """The first of some scores in large type, the others below."""
    first = metric(names[0])
    value, spread = first.text(*group.value(names[0])).split(" ± ")
    rest = [(metric(name), group.value(name)) for name in names[1:]]
    note = ", ".join(f"{one.title} {one.text(*of)} {one.unit}".strip() for one, of in rest)
    return Tile(f"{first.title}, {group.label}", value, spread, note)


def score_tile(name: str, group: Group) -> Tile:
    """One score of the only group, beside the paper's."""
    value, spread = metric(name).text(*group.value(name)).split(" ± ")
    theirs = group.first.published.get(name)
    note = f"paper: {metric(name).text(theirs.mean, theirs.sd)}" if theirs else ""
    if name == "slots_used":
        note = f"of {group.first.scores.settings['num_slots']}"
    return Tile(metric(name).heading, value, spread, note, metric(name).meaning)


def spread_note(groups: Sequence[Group]) -> str:
    """What stands after ±."""
    counts = [len(group.members) for group in groups]
    images = groups[0].first.scores.settings["images"]
    of_seeds = f"the standard deviation over {max(counts)} training seeds"
    of_images = f"the standard error over {images} scenes"
    if min(counts) == max(counts):
        return f"After ± stands {of_seeds if counts[0] > 1 else of_images}."
    return f"After ± stands {of_seeds}, or {of_images} where there is one run only."


def paper_section(groups: Sequence[Group]) -> Section | None:
    """Our scores and the paper's, for the data set of the first runs; None where the paper has none."""
    dataset = groups[0].first.dataset
    mine = [g for g in groups if g.first.dataset == dataset and "ari" in g.first.scores.values]
    theirs = {
        SYSTEMS[system]: (system, value) for (system, on), value in PUBLISHED_ARI.items() if on == dataset
    }
    if not theirs or not mine:
        return None
    alone = "this run" if len(mine[0].members) == 1 else f"these {len(mine[0].members)} runs"
    labels = [alone] if len(groups) == 1 else shortened([group.label for group in mine])
    ours = dict(zip(labels, mine, strict=True))
    chart = comparison(
        {name: group.value("ari") for name, group in ours.items()},
        {name: (value.mean, value.sd) for name, (_, value) in theirs.items()},
    )
    known = {name for group in mine for name in group.first.scores.values}
    names = [name for name in ("ari", "mse", "kl") if name in known]
    lines = [
        Line(
            [alone if len(groups) == 1 else group.label, *(group.text(score) for score in names)],
            is_marked=True,
        )
        for group in mine
    ]
    for name, (system, _) in theirs.items():
        scores = published(system, dataset)
        cells = [METRICS[s].text(scores[s].mean, scores[s].sd) if s in scores else "" for s in names]
        lines.append(Line([name, *cells]))
    notes = [f"{name}: {value.note}." for name, (_, value) in theirs.items() if value.note]
    head = ["", *(METRICS[name].heading for name in names)]
    table = Table(head, lines, style="numbers", caption=" ".join(notes), span=7)
    title = mine[0].first.dataset_title
    return Section(
        "paper",
        "Against the paper",
        f"Foreground ARI on {title} beside Table 1 of Emami et al. (2021), whose spread is that over training "
        f"seeds.{GENERATED if mine[0].first.run.config.data.path is None else ''}",
        [Part([Charts([drawing(chart, alt=f"ARI here and in the paper on {title}")], span=5), table])],
    )


def runs_section(groups: Sequence[Group]) -> Section:
    """Every score and its meaning; a column for each run, and one for each group of several."""
    members = [one for group in groups for one in group.members]
    several = [group for group in groups if len(group.members) > 1]
    names = list(dict.fromkeys(name for one in members for name in one.scores.values))
    is_alone = len(members) == 1
    head = ["", *(["value"] if is_alone else [one.run.label for one in members])]
    head += ["mean ± sd" if len(groups) == 1 else f"{group.label}, mean ± sd" for group in several]
    lines = []
    for name in names:
        cells = [groups[0].text(name)] if is_alone else [value_of(one, name) for one in members]
        cells += [group.text(name) for group in several]
        lines.append(Line([metric(name).heading, *cells, metric(name).meaning], is_marked=name == "ari"))
    if not is_alone:
        seeds = [str(one.run.seed) for one in members]
        lines.append(Line(["Training seed", *seeds, *("" for _ in several), ""]))
    note = "the training was stopped there" if any(one.is_stopped for one in members) else ""
    lines.append(Line(["Training steps", *(one.steps for one in members), *("" for _ in several), note]))
    table = Table([*head, ""], lines, style="numbers meanings")
    if is_alone:
        return Section("runs", "All scores", "", [Part([table])])
    prose = "Every run on the same held-out scenes"
    prose += "; they differ in their seed alone." if len(groups) == 1 else "."
    return Section("runs", "Run by run", prose, [Part([table])])


def value_of(one: Scored, name: str) -> str:
    """A run's mean of one score as text, empty if it has none."""
    return metric(name).text(one.scores.mean(name)) if name in one.scores.values else ""


def learning_section(groups: Sequence[Group], goals: Mapping[str, Published]) -> Section | None:
    """The curves of all runs that have metrics, one chart for each quantity."""
    runs: dict[str, Any] = {}
    colors: dict[str, str] = {}
    for g, group in enumerate(groups):
        for one in group.members:
            if one.run.metrics:
                runs[one.run.label] = one.run.metrics
                if len(groups) > 1:
                    colors[one.run.label] = COLORS[g % len(COLORS)]
    course = Course(runs, {name: value.mean for name, value in goals.items()}, colors)
    drawings = [
        drawing(line_chart([panel], size=SMALL, legend=()), alt=f"{panel.title} against the training step")
        for panel in training_panels(course)
    ]
    if not drawings:
        return None
    legend = [(course.color(name), name) for name in runs]
    if len(groups) > 1:
        legend = [(COLORS[g % len(COLORS)], group.label) for g, group in enumerate(groups)]
    caption = "Dotted: the paper's value at the end of its training. " if goals else ""
    return Section(
        "learning",
        "Learning",
        "How training went. Validation scores are of scenes that were not trained on; the rest is of training batches.",
        [Part([Charts(drawings, caption, legend if len(runs) > 1 else [])])],
    )


def settings_section(groups: Sequence[Group]) -> Section:
    """Every setting; what differs from the preset, or from group to group, is marked."""
    tables = [group.first.settings for group in groups]
    names = dict.fromkeys(name for table in tables for name in table)
    preset = groups[0].first.preset
    if len(groups) > 1:
        telling = set(differences([group.first.settings for group in groups]))
        head = ["setting", *(group.label for group in groups)]
        note = "Marked: what differs between the runs."
        extra: Mapping[str, Any] = {}
    else:
        usual = groups[0].first.settings if preset is None else PRESETS[preset].flat()
        extra = {name: usual.get(name) for name in differing(usual, tables[0]) if name != "train.seed"}
        telling = set(extra)
        head = ["setting", "value", *(["preset"] if extra else [])]
        note = f"Marked: what differs from the preset {preset}." if extra else ""
        note = note or (f"As in the preset {preset}." if preset else "")
    lines = []
    for name in sorted(names, key=lambda name: name not in telling):
        cells = [name, *(written(table.get(name)) for table in tables)]
        cells += [written(extra[name]) if name in extra else ""] if extra else []
        lines.append(Line(cells, is_marked=name in telling))
    table = Table(head, lines, summary=f"All {len(lines)} settings", style="settings")
    return Section("settings", "Configuration", note, [Part([table])])


def again_section(scored: Sequence[Scored], commands: Sequence[str]) -> Section:
    """Where the runs were trained, and what to type to have all this again."""
    runs = [one.run for one in scored]
    trained = dict.fromkeys(training_command(run) for run in runs)
    blocks: list[Commands | Table] = [Commands([*trained, *commands])]
    known = [run for run in runs if run.environment]
    if known:
        names = dict.fromkeys(name for run in known for name in run.environment)
        rows = {name: [written(run.environment.get(name)) for run in known] for name in names}
        is_same = all(len(set(cells)) == 1 for cells in rows.values())
        head = [
            "environment",
            "" if is_same else known[0].name,
            *([] if is_same else [r.label for r in known[1:]]),
        ]
        lines = [Line([name, *(cells[:1] if is_same else cells)]) for name, cells in rows.items()]
        blocks.append(Table(head, lines, style="settings", summary="Where they were trained"))
    prose = "What trains these models and makes this page; a seed gives the same numbers on the same machine."
    return Section("again", "Make it again", prose, [Part(blocks)])
