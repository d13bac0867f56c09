"""The paper's Figure 10: time against memory, a line for each model over the sizes of images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from emorl.plots.style import COLORS, Chart, blank, styled

TITLES = {"forward": "test time", "training": "training: forward and backward"}
STYLES = ["-", "--", ":"]  # of one model with different numbers of refinements


@styled
def efficiency_figure(rows: Sequence[Mapping[str, Any]]) -> Chart:
    """Rows of `emorl bench`; of several batch sizes the largest is drawn, and points carry the size of the images."""
    batch = max(row["batch_size"] for row in rows)
    figure = blank(10.5, 4.2)
    panels: Any = figure.subplots(1, len(TITLES))
    for axes, (mode, title) in zip(panels, TITLES.items(), strict=True):
        for label, look, points in lines([row for row in rows if row["batch_size"] == batch]):
            x, y = [row[f"{mode}_mib"] for row in points], [row[f"{mode}_ms"] for row in points]
            spread = [
                [row[f"{mode}_ms"] - row[f"{mode}_ms_low"] for row in points],
                [row[f"{mode}_ms_high"] - row[f"{mode}_ms"] for row in points],
            ]
            axes.errorbar(x, y, yerr=spread, marker="o", ms=4, lw=1.3, capsize=2, label=label, **look)
            axes.annotate(
                str(points[-1]["image_size"]), (x[-1], y[-1]), (4, 4), textcoords="offset points", fontsize=7
            )
        plain_logarithms(axes)
        axes.set_title(title)
        axes.set_xlabel("MiB per image")
    panels[0].set_ylabel("ms per image")
    sizes = ", ".join(str(size) for size in sorted({row["image_size"] for row in rows}))
    figure.legend(
        *panels[0].get_legend_handles_labels(),
        loc="outside right upper",
        title=f"{sizes} pixels, batch {batch}",
    )
    return figure


def plain_logarithms(axes: Any) -> None:
    """Both axes logarithmic, with ordinary numbers at them."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_xscale("log")
    axes.set_yscale("log")
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0)))
        axis.set_major_formatter(lambda value, _: f"{value:g}")
        axis.set_minor_formatter(NullFormatter())


def lines(rows: Sequence[Mapping[str, Any]]) -> list[tuple[str, dict[str, Any], list[Mapping[str, Any]]]]:
    """Label, look and points of each line: a colour for each model, a style for each number of refinements."""
    labels = list(dict.fromkeys(row["label"] for row in rows))
    presets = list(dict.fromkeys(row["preset"] for row in rows))
    found, seen = [], dict.fromkeys(presets, 0)
    for label in labels:
        points = sorted((row for row in rows if row["label"] == label), key=lambda row: row["image_size"])
        preset = points[0]["preset"]
        color, style = COLORS[presets.index(preset) % len(COLORS)], STYLES[seen[preset] % len(STYLES)]
        seen[preset] += 1
        found.append((label, {"color": color, "ls": style}, points))
    return found
