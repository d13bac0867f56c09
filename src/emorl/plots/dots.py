"""Charts of dots: the scores of systems side by side, and of scene after scene."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emorl.evaluation.metrics import METRICS
from emorl.plots.lines import SMALL, Line, Panel, line_chart
from emorl.plots.style import COLORS, Chart, blank, literal, styled

Value = tuple[float, float]  # a mean and its spread


@styled
def comparison(ours: Mapping[str, Value], theirs: Mapping[str, Value]) -> Chart:
    """ARI of runs, and of the systems of the paper, with their spread; what is far off stands at the edge."""
    rows = [(name, *value, True) for name, value in ours.items()]
    rows += [(name, *value, False) for name, value in theirs.items()]
    good = [mean for _, mean, _, _ in rows if mean > 0.7]
    left = min(0.9, min(good) - 0.05) if good else 0.0
    figure = blank(4.4, 0.5 + 0.3 * len(rows))
    axes = figure.subplots()
    for y, (_, mean, spread, is_ours) in enumerate(rows):
        look = {"color": COLORS[0] if is_ours else "#8b919c", "ms": 7 if is_ours else 5, "lw": 1.6}
        if mean < left:
            axes.plot(left, y, marker="<", **look)
        else:
            axes.errorbar(mean, y, xerr=spread, fmt="o", capsize=3, **look)
        text = {"weight": "bold" if is_ours else "normal", "fontsize": 8.5, "va": "center"}
        axes.text(1.02, y, f"{mean:.3f} ± {spread:.3f}", transform=axes.get_yaxis_transform(), **text)
    axes.set_yticks(range(len(rows)), [literal(name) for name, _, _, _ in rows])
    for label, (_, _, _, is_ours) in zip(axes.get_yticklabels(), rows, strict=True):
        label.set_fontweight("bold" if is_ours else "normal")
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_xlim(left - 0.01, 1.005)
    axes.grid(visible=False, axis="y")
    axes.spines["left"].set_visible(False)
    axes.tick_params(axis="y", length=0)
    return figure


def sorted_scores(values: Sequence[float], name: str) -> Chart:
    """Score `name` of every image, the worst first."""
    metric = METRICS[name]
    share = [100 * (i + 0.5) / len(values) for i in range(len(values))]
    y = sorted((metric.factor * value for value in values), reverse=metric.direction == "down")
    scale: Any = "log" if metric.direction == "down" else "linear"
    panel = Panel(metric.heading, [Line(share, y)], "% of the scenes, worst first", scale=scale)
    return line_chart([panel], size=SMALL)


def scatter(scores: Mapping[str, Sequence[float]]) -> Chart:
    """A dot for each image; `scores` are two, by name: that along the horizontal axis, then the other."""
    (one, x), (other, y) = scores.items()
    dots = Line(
        [METRICS[one].factor * v for v in x], [METRICS[other].factor * v for v in y], dash="", marker="o"
    )
    title = f"{METRICS[other].heading} against {METRICS[one].title}"
    panel = Panel(title, [dots], METRICS[one].heading, scale="log" if min(y) > 0 else "linear")
    return line_chart([panel], size=SMALL)
