"""Heat maps: how active each dimension of a slot is, and which factor of an object it stands for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from emorl.plots.style import COLORS, Chart, blank, styled

COLUMNS = 8  # of the map of dimensions
SHOWN = 0.02  # share of a factor's importance above which a dimension is worth a row


@styled
def activeness_map(values: Sequence[float], active: Sequence[int]) -> Chart:
    """One cell for each dimension of a slot, brighter the more the image follows it; active ones are framed."""
    from matplotlib.patches import Rectangle

    count = -(-len(values) // COLUMNS)
    figure = blank(0.62 * COLUMNS, 0.5 * count)
    axes = figure.subplots()
    largest = max(*values, 1e-12)
    for d, value in enumerate(values):
        x, y = d % COLUMNS, d // COLUMNS
        cell(axes, x + 0.5, y + 0.5, value / largest, text=f"z{d}")
        if d in active:
            frame = Rectangle((x + 0.04, y + 0.05), 0.92, 0.9, fill=False, edgecolor=COLORS[1], lw=2)
            axes.add_patch(frame)
    axes.set_xlim(0, COLUMNS)
    axes.set_ylim(count, 0)
    axes.set_axis_off()
    return figure


@styled
def importance_matrix(importance: Sequence[Sequence[float]], factors: Sequence[str]) -> Chart:
    """How much each dimension (row) tells of each factor (column); dimensions that tell nothing are left out."""
    columns = [
        [value / max(sum(column), 1e-12) for value in column] for column in zip(*importance, strict=True)
    ]
    rows = {d: row for d, row in enumerate(zip(*columns, strict=True)) if max(row) >= SHOWN}
    figure = blank(1.2 + 0.8 * len(factors), 0.9 + 0.27 * len(rows))
    axes = figure.subplots()
    for y, row in enumerate(rows.values()):
        for x, share in enumerate(row):
            cell(axes, x, y, share, text=f"{share:.0%}" if share >= 0.1 else "")
    names = [factor.replace("_", " ") for factor in factors]
    axes.set_xticks(range(len(factors)), names, rotation=30 if len(factors) > 4 else 0)
    axes.set_yticks(range(len(rows)), [f"z{d}" for d in rows])
    axes.set_ylim(max(len(rows), 1) - 0.5, -0.5)
    axes.set_xlim(-0.5, len(factors) - 0.5)
    axes.xaxis.tick_top()
    axes.grid(visible=False)
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)
    return figure


def cell(axes: Any, x: float, y: float, share: float, *, text: str) -> None:
    """A coloured cell around (x, y)."""
    from matplotlib import colormaps
    from matplotlib.patches import Rectangle

    brightness = share**0.5  # the root shows weak cells beside strong ones, and keeps the order
    color = colormaps["viridis"](brightness)
    axes.add_patch(Rectangle((x - 0.46, y - 0.45), 0.92, 0.9, facecolor=color, lw=0))
    letters = "black" if brightness > 0.65 else "white"
    axes.text(x, y, text, ha="center", va="center", fontsize=9, color=letters)
