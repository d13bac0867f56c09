"""The course of a training, from its metrics: loss, likelihood, KL, validation scores, refinement, weights."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from emorl.plots.style import COLORS, INK, Chart, blank, literal, log_scale, styled

Metrics = Sequence[Mapping[str, float | None]]  # the lines of metrics.jsonl
Line = tuple[list[float], list[float]]  # steps done, and values
POINTS = 160  # at most so many of a line are drawn, each a mean of its neighbours
START = 0.04  # share of the training whose loss may leave the frame: it falls from great heights
DASHES: list[Any] = ["-", (0, (4, 2)), (0, (1, 1.5)), "-."]


@dataclass(frozen=True)
class Panel:
    """Quantities that are drawn together."""

    title: str
    pattern: str  # of their names
    is_log: bool = False
    goal: str = ""  # the score whose published value belongs here


PANELS = [
    Panel("Validation ARI", "validation_ari", goal="ari"),
    Panel("Validation MSE", "validation_mse", is_log=True, goal="mse"),
    Panel("Loss", "loss"),
    Panel("Negative log-likelihood", "nll"),
    Panel("KL (nats)", "kl_hierarchical|kl_refined", is_log=True, goal="kl_refined"),
    Panel("L2 norm of refinement updates", r"update_\d+"),
    Panel("Weight of the NLL", "nll_weight", is_log=True),
    Panel("Weight of the KL", "kl_weight", is_log=True),
]
NAMES = {"kl_hierarchical": "all layers", "kl_refined": "refined"}


@dataclass(frozen=True)
class Course:
    """The metrics of some runs, and how they are drawn."""

    runs: Mapping[str, Metrics]
    goals: Mapping[str, float] = field(default_factory=dict)  # published scores, drawn dotted
    colors: Mapping[str, str] = field(default_factory=dict)  # of runs; each has its own if left out

    def color(self, run: str) -> str:
        return self.colors.get(run, COLORS[list(self.runs).index(run) % len(COLORS)])


def series(metrics: Metrics, name: str) -> Line:
    """Steps done and values; where a training wrote many, means over stretches of it."""
    pairs = [(m["step"], m[name]) for m in metrics if m.get(name) is not None and m.get("step") is not None]
    if not pairs:
        return [], []
    stretches = np.array_split(np.array(pairs, dtype=float), min(POINTS, len(pairs)))
    steps, values = zip(*(stretch.mean(axis=0) for stretch in stretches), strict=True)
    return [float(step) + 1 for step in steps], [float(value) for value in values]


def panels_of(runs: Mapping[str, Metrics]) -> Iterator[tuple[Panel, list[str]]]:
    """The panels that have something to show, and the names of what they show."""
    known = dict.fromkeys(name for metrics in runs.values() for record in metrics for name in record)
    for panel in PANELS:
        names = [name for name in known if re.fullmatch(panel.pattern, name)]
        drawn = [series(metrics, name)[1] for metrics in runs.values() for name in names]
        values = [value for line in drawn for value in line]
        # A single point is no curve, and what never moves is said by the configuration.
        if max(map(len, drawn), default=0) > 1 and max(values) - min(values) > 1e-6 * abs(max(values)):
            yield panel, names


def draw(axes: Any, panel: Panel, names: Sequence[str], course: Course) -> None:
    """Colours tell runs apart and dashes quantities; of a single run, colours tell quantities apart."""
    is_alone = len(course.runs) == 1
    lines = []
    for run, metrics in course.runs.items():
        for n, name in enumerate(names):
            line = series(metrics, name)
            color, dash = (COLORS[n % len(COLORS)], "-") if is_alone else (course.color(run), DASHES[n % 4])
            axes.plot(*line, color=color, ls=dash, alpha=0.9 if len(course.runs) < 3 else 0.75)
            lines.append(line)
    if panel.goal in course.goals:
        axes.axhline(course.goals[panel.goal], color=INK, lw=1, ls=":")
    axes.set_title(panel.title)
    axes.set_xlabel("step")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}")
    set_range(axes, panel, lines)
    if len(names) > 1:
        styles = [
            (COLORS[n % len(COLORS)], "-") if is_alone else (INK, DASHES[n % 4]) for n in range(len(names))
        ]
        titles = [NAMES.get(name, name.replace("update_", "refinement ")) for name in names]
        legend(axes, titles, styles)


def set_range(axes: Any, panel: Panel, lines: Sequence[Line]) -> None:
    values = [value for line in lines for value in line[1]]
    if panel.is_log and min(values) > 0:
        log_scale(axes)
    elif panel.goal == "ari":
        axes.set_ylim(min(0.0, *values), 1.02)
    elif panel.pattern in ("loss", "nll"):
        end = max(steps[-1] for steps, _ in lines if steps)
        settled = [v for line in lines for step, v in zip(*line, strict=True) if step > START * end]
        margin = 0.06 * (max(settled) - min(settled)) or 1.0
        axes.set_ylim(min(settled) - margin, max(settled) + margin)


def legend(place: Any, titles: Sequence[str], styles: Sequence[tuple[str, Any]], **options: Any) -> None:
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=color, ls=dash) for color, dash in styles]
    place.legend(lines, [literal(title) for title in titles], **options)


@styled
def training_curves(course: Course, *, columns: int = 4) -> Chart | None:
    """All panels that have data, in one chart; None if there is nothing to draw."""
    found = list(panels_of(course.runs))
    if not found:
        return None
    columns = min(columns, len(found))
    rows = -(-len(found) // columns)
    figure = blank(3.1 * columns, 2.4 * rows + (0.3 if len(course.runs) > 1 else 0))
    places = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, (panel, names) in zip(places, found, strict=False):
        draw(axes, panel, names, course)
    for axes in places[len(found) :]:
        axes.set_visible(False)
    if len(course.runs) > 1:
        styles = [(course.color(run), "-") for run in course.runs]
        legend(figure, list(course.runs), styles, loc="outside lower center", ncols=min(len(styles), 6))
    return figure


@styled
def panel_chart(course: Course, panel: Panel, names: Sequence[str]) -> Chart:
    """One panel as a chart of its own, for a page that lays them out."""
    figure = blank(3.4, 2.5)
    draw(figure.subplots(), panel, names, course)
    return figure
