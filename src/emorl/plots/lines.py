"""The line chart: one or more panels of lines. Training curves, sweeps, seeds and costs are all drawn by it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from emorl.evaluation.metrics import metric, shown_in_charts
from emorl.plots.style import COLORS, DASHES, INK, Chart, blank, literal, log_log_scale, log_scale, styled

Points = Sequence[tuple[float, float]]  # (x, y)
Row = Mapping[str, Any]  # scores by name; "<name>_error" is the standard error, where there is one
Entry = tuple[str, str, Any]  # of a legend: label, colour, dash
LETTERS, SWATCH = (
    43,
    6,
)  # of a legend: so many fit below a panel, and a line beside its label takes the place of so many
SMOOTH = 25  # points
SMALL = (3.4, 2.5)  # inches: a chart of one panel for a page that lays charts out


@dataclass(frozen=True)
class Line:
    """Points to connect, with a band around them if `low` and `high` are given."""

    x: Sequence[float]
    y: Sequence[float]
    label: str = ""
    color: str = COLORS[0]
    dash: Any = "-"  # "": no line, only markers
    marker: str = ""  # "o" for dots
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    note: str = ""  # written at the last point


@dataclass(frozen=True)
class Panel:
    """Axes with lines that are drawn together."""

    title: str
    lines: Sequence[Line]
    xlabel: str = ""
    ylabel: str = ""
    scale: Literal["linear", "log", "log-log"] = "linear"
    limits: tuple[float | None, float | None] | None = None  # of the vertical axis
    goal: float | None = None  # a dotted horizontal line
    usual: float | None = None  # a dotted vertical line
    ticks: Sequence[float] | None = None  # along the horizontal axis
    legend: Sequence[Entry] = ()  # inside the axes


@styled
def line_chart(
    panels: Sequence[Panel],
    *,
    columns: int = 4,
    size: tuple[float, float] = (3.1, 2.4),
    legend: Sequence[Entry] | None = None,
) -> Chart:
    """Draws `panels`, each of `size` inches. Below them stands a legend: that of the lines' labels if left out."""
    entries = legend_of(panels) if legend is None else legend
    rows = -(-len(panels) // columns)
    columns = -(-len(panels) // rows)  # as even as possible
    figure = blank(size[0] * columns, size[1] * rows + (0.3 if entries else 0))
    places = figure.subplots(rows, columns, squeeze=False).flatten()
    for axes, panel in zip(places, panels, strict=False):
        draw(axes, panel)
    for axes in places[len(panels) :]:
        axes.set_visible(False)
    if entries:
        widest = max(len(label) for label, _, _ in entries) + SWATCH
        fitting = max(1, LETTERS * columns // widest)
        add_legend(figure, entries, loc="outside lower center", ncols=min(len(entries), 2 * columns, fitting))
    return figure


def legend_of(panels: Sequence[Panel]) -> list[Entry]:
    """The labels of all lines, each once; none if there is a single one."""
    entries = {
        line.label: (line.label, line.color, line.dash) for p in panels for line in p.lines if line.label
    }
    return list(entries.values()) if len(entries) > 1 else []


def add_legend(place: Any, entries: Sequence[Entry], **options: Any) -> None:
    """A legend of these entries at a figure or at axes."""
    from matplotlib.lines import Line2D

    lines = [Line2D([], [], color=color, ls=dash) for _, color, dash in entries]
    place.legend(lines, [literal(label) for label, _, _ in entries], **options)


def draw(axes: Any, panel: Panel) -> None:
    """Draws one panel."""
    for line in panel.lines:
        look = {"color": line.color, "ls": line.dash, "marker": line.marker, "ms": 4, "mew": 0}
        axes.plot(line.x, line.y, alpha=0.6 if line.dash == "" else 0.9, **look)
        if len(line.low):
            axes.fill_between(line.x, line.low, line.high, color=line.color, alpha=0.18, lw=0)
        if line.note:
            end = (line.x[-1], line.y[-1])
            axes.annotate(line.note, end, (4, 4), textcoords="offset points", fontsize=7)
    if panel.scale == "log-log":
        log_log_scale(axes)
    elif panel.scale == "log" and spans_a_decade([value for line in panel.lines for value in line.y]):
        log_scale(axes)
    if panel.limits is not None:
        axes.set_ylim(*panel.limits)
    if panel.goal is not None:
        axes.axhline(panel.goal, color=INK, lw=1, ls=":")
    if panel.usual is not None:
        axes.axvline(panel.usual, color=INK, lw=1, ls=":")
    if panel.ticks is not None:
        axes.set_xticks(list(panel.ticks))
    elif panel.xlabel == "step":
        axes.xaxis.set_major_formatter(
            lambda value, _: f"{value / 1000:g}k" if value >= 1000 else f"{value:g}"
        )
    axes.set_title(literal(panel.title))
    axes.set_xlabel(panel.xlabel)
    axes.set_ylabel(panel.ylabel)
    if panel.legend:
        add_legend(axes, panel.legend)


def spans_a_decade(values: Sequence[float]) -> bool:
    """Whether a logarithmic scale is possible and worth it; numbers at it would be odd otherwise."""
    return len(values) > 0 and min(values) > 0 and max(values) > 10 * min(values)


# Scores against anything: a sweep, the step, CPU minutes.


def score_panels(
    curves: Mapping[str, Sequence[Row]],
    *,
    label: str,
    x: str = "value",
    names: Sequence[str] | None = None,
    colors: Sequence[str] = COLORS,
    log: Sequence[str] = (),
    goals: Mapping[str, float] | None = None,
    usual: float | None = None,
) -> list[Panel]:
    """A panel for each score, a line for each curve against `x`; bands are standard errors, where they are known.

    `names` are the scores to draw, those that charts show if left out; `goals` are drawn dotted, `usual` is an x.
    """
    known = dict.fromkeys(name for rows in curves.values() for row in rows for name in row)
    panels = []
    for name in shown_in_charts(known) if names is None else [name for name in names if name in known]:
        factor, lines = metric(name).factor, []
        for number, (curve, rows) in enumerate(curves.items()):
            mine = [row for row in rows if row.get(name) is not None]
            y = [factor * row[name] for row in mine]
            error = [factor * row.get(f"{name}_error", 0.0) for row in mine]
            low = [v - e for v, e in zip(y, error, strict=True)] if any(error) else []
            high = [v + e for v, e in zip(y, error, strict=True)] if any(error) else []
            marker, color = "o" if len(mine) < 20 else "", colors[number % len(colors)]
            lines.append(Line([row[x] for row in mine], y, curve, color, marker=marker, low=low, high=high))
        goal = None if goals is None or name not in goals else factor * goals[name]
        ticks = sorted({value for line in lines for value in line.x}) if x == "value" else []
        panels.append(
            Panel(metric(name).heading, lines, label, scale="log" if name in log else "linear", goal=goal, usual=usual,
                  ticks=ticks if 0 < len(ticks) <= 12 else None)
        )  # fmt: skip
    return panels


def score_chart(curves: Mapping[str, Sequence[Row]], *, label: str, **options: Any) -> Chart:
    """Scores against what was varied, named `label`; `options` are those of `score_panels`."""
    return line_chart(score_panels(curves, label=label, **options), size=(3.3, 2.7))


# Curves of several seeds: their mean as a line, from the least to the greatest as a band.


def smoothed(points: Points) -> Points:
    """A running mean over SMOOTH points, or a quarter of them: single training batches are noisy."""
    steps, values = (np.array(column) for column in zip(*points, strict=True))
    width = max(1, min(SMOOTH, len(values) // 4))
    weights = np.ones(width) / width
    counts = np.convolve(np.ones(len(values)), weights, mode="same")
    means = np.convolve(values, weights, mode="same") / counts
    return list(zip(steps.tolist(), means.tolist(), strict=True))


def over_seeds(seeds: Sequence[Points], label: str, color: str) -> Line:
    """The mean of curves that share their steps, and the range they span."""
    count = min(map(len, seeds))
    values = np.array([[value for _, value in seed[:count]] for seed in seeds])
    mean, low, high = (of.tolist() for of in (values.mean(axis=0), values.min(axis=0), values.max(axis=0)))
    return Line([step for step, _ in seeds[0][:count]], mean, label, color, low=low, high=high)


def seed_chart(panels: Mapping[str, Mapping[str, Sequence[Points]]]) -> Chart:
    """Curves against the step; `panels`: title -> label of a line -> the curves of its seeds."""
    drawn = []
    for title, curves in panels.items():
        lines = [
            over_seeds(seeds, name, COLORS[n % len(COLORS)]) for n, (name, seeds) in enumerate(curves.items())
        ]
        drawn.append(Panel(title, lines, "step", legend=legend_of([Panel(title, lines)])))
    return line_chart(drawn, size=(4.2, 3.2), legend=())


# The paper's Figure 10: time against memory, a line for each model over the sizes of images.

PASSES = {"forward": "test time", "training": "training: forward and backward"}


def cost_chart(rows: Sequence[Row]) -> Chart:
    """Rows of `emorl bench`; of several batch sizes the largest is drawn, and lines end in the size of the images."""
    batch = max(row["batch_size"] for row in rows)
    mine = [row for row in rows if row["batch_size"] == batch]
    panels = [
        Panel(f"{title}, batch {batch}", cost_lines(mine, kind), "MiB per image", "ms per image", "log-log")
        for kind, title in PASSES.items()
    ]
    return line_chart(panels, size=(5.0, 4.2))


def cost_lines(rows: Sequence[Row], kind: str) -> list[Line]:
    """A line for each label over the sizes: a colour for each model, a dash for each number of refinements."""
    presets = list(dict.fromkeys(row["preset"] for row in rows))
    seen = dict.fromkeys(presets, 0)
    lines = []
    for label in dict.fromkeys(row["label"] for row in rows):
        points = sorted(
            (row for row in rows if row["label"] == label), key=lambda row: int(row["image_size"])
        )
        preset = points[0]["preset"]
        color, dash = COLORS[presets.index(preset) % len(COLORS)], DASHES[seen[preset] % len(DASHES)]
        seen[preset] += 1
        column = {
            name: [row[f"{kind}_{name}"] for row in points] for name in ("mib", "ms", "ms_low", "ms_high")
        }
        lines.append(
            Line(column["mib"], column["ms"], label, color, dash, "o", column["ms_low"], column["ms_high"],
                 note=str(points[-1]["image_size"]))
        )  # fmt: skip
    return lines
