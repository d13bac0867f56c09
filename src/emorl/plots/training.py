"""The course of a training, from its metrics: loss, likelihood, KL, validation scores, refinement, weights."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from emorl.evaluation.metrics import METRICS, VALIDATION, metric
from emorl.plots.lines import Entry, Line, Panel, line_chart
from emorl.plots.style import COLORS, DASHES, INK, Chart

Metrics = Sequence[Mapping[str, Any]]  # the lines of metrics.jsonl
POINTS = 160  # at most so many of a line are drawn, each a mean of its neighbours
START = 0.04  # share of the training, at its start, whose loss may be cut off: it is far above the rest


@dataclass(frozen=True)
class Quantity:
    """Logged values that are drawn in one panel."""

    pattern: str  # of their names
    scale: Literal["linear", "log"] = "linear"
    title: str = ""  # the heading of the metric if left out
    goal: str = ""  # the score whose published value belongs here


QUANTITIES = [
    Quantity("validation_ari", goal="ari"),
    Quantity("validation_mse", "log", goal="mse"),
    Quantity("loss"),
    Quantity("nll"),
    Quantity("kl|kl_hierarchical", "log", METRICS["kl"].heading, goal="kl"),
    Quantity(r"update_\d+", title="L2 norm of refinement updates"),
    Quantity("nll_weight", "log"),
    Quantity("kl_weight", "log"),
]


@dataclass(frozen=True)
class Course:
    """The metrics of some runs, and how they are drawn."""

    runs: Mapping[str, Metrics]
    goals: Mapping[str, float] = field(default_factory=dict)  # published scores, drawn dotted
    colors: Mapping[str, str] = field(default_factory=dict)  # of runs; each has its own if left out

    def color(self, run: str) -> str:
        """The colour of a run's lines."""
        return self.colors.get(run, COLORS[list(self.runs).index(run) % len(COLORS)])


def series(metrics: Metrics, name: str) -> tuple[list[float], list[float]]:
    """Steps done and values; where a training wrote many, means over stretches of it."""
    pairs = [(m["step"], m[name]) for m in metrics if m.get(name) is not None and m.get("step") is not None]
    if not pairs:
        return [], []
    stretches = np.array_split(np.array(pairs, dtype=float), min(POINTS, len(pairs)))
    steps, values = zip(*(stretch.mean(axis=0) for stretch in stretches), strict=True)
    return [float(step) + 1 for step in steps], [float(value) for value in values]


def training_panels(course: Course) -> list[Panel]:
    """The panels that have something to show: a single point is no curve, and what never moves is a setting."""
    known = dict.fromkeys(name for metrics in course.runs.values() for record in metrics for name in record)
    panels = []
    for quantity in QUANTITIES:
        names = [name for name in known if re.fullmatch(quantity.pattern, name)]
        lines = [line for run in course.runs for line in lines_of(course, run, names)]
        values = [value for line in lines for value in line.y]
        if max((len(line.y) for line in lines), default=0) > 1 and np.ptp(values) > 1e-6 * abs(max(values)):
            panels.append(panel_of(quantity, names, lines, course))
    return panels


def lines_of(course: Course, run: str, names: Sequence[str]) -> list[Line]:
    """Colours tell runs apart and dashes quantities; of a single run, colours tell quantities apart."""
    lines = []
    for n, name in enumerate(names):
        x, y = series(course.runs[run], name)
        look = (
            (COLORS[n % len(COLORS)], "-")
            if len(course.runs) == 1
            else (course.color(run), DASHES[n % len(DASHES)])
        )
        lines.append(Line(x, [metric(name).factor * value for value in y], "", *look))
    return lines


def panel_of(quantity: Quantity, names: Sequence[str], lines: Sequence[Line], course: Course) -> Panel:
    """The panel of one quantity, with a legend if it has several names."""
    legend: list[Entry] = []
    if len(names) > 1:
        is_alone = len(course.runs) == 1
        looks = [
            (COLORS[n % len(COLORS)], "-") if is_alone else (INK, DASHES[n % len(DASHES)])
            for n in range(len(names))
        ]
        legend = [(metric(name).title, *look) for name, look in zip(names, looks, strict=True)]
    goal = course.goals.get(quantity.goal)
    return Panel(
        quantity.title or metric(names[0]).heading, lines, "step", scale=quantity.scale, legend=legend,
        limits=limits_of(quantity, lines), goal=None if goal is None else goal * metric(names[0]).factor,
    )  # fmt: skip


def limits_of(quantity: Quantity, lines: Sequence[Line]) -> tuple[float, float] | None:
    """From 0 to 1 for the ARI; for losses, what they are after the start, which would dwarf the rest."""
    if quantity.pattern == f"{VALIDATION}ari":
        return min(0.0, *(value for line in lines for value in line.y)), 1.02
    if quantity.pattern not in ("loss", "nll"):
        return None
    end = max(line.x[-1] for line in lines if line.x)
    settled = [y for line in lines for x, y in zip(line.x, line.y, strict=True) if x > START * end]
    margin = 0.06 * (max(settled) - min(settled)) or 1.0
    return min(settled) - margin, max(settled) + margin


def training_chart(course: Course) -> Chart | None:
    """All panels that have data, in one chart; None if there is nothing to draw."""
    panels = training_panels(course)
    legend = [(run, course.color(run), "-") for run in course.runs] if len(course.runs) > 1 else []
    return line_chart(panels, legend=legend) if panels else None
