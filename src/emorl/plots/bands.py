"""Curves of several seeds: their mean as a line, from the least to the greatest as a band."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from emorl.plots.style import Chart, blank, styled

Points = Sequence[tuple[float, float]]  # (step, value)


def smoothed(points: Points, *, width: int = 25) -> Points:
    """A running mean over `width` points: single training batches are noisy."""
    steps, values = (np.array(column) for column in zip(*points, strict=True))
    width = max(1, min(width, len(values) // 4))
    weights = np.ones(width) / width
    counts = np.convolve(np.ones(len(values)), weights, mode="same")
    means = np.convolve(values, weights, mode="same") / counts
    return list(zip(steps.tolist(), means.tolist(), strict=True))


@styled
def band_figure(
    panels: Mapping[str, Mapping[str, Sequence[Points]]], *, log: Sequence[str] = (), label: str = "step"
) -> Chart:
    """`panels`: title -> label -> the curves of its seeds, which share their steps. `log` names panels by title."""
    figure = blank(4.2 * len(panels), 3.2)
    axes_of: Any = figure.subplots(1, len(panels), squeeze=False)[0]
    for axes, (title, curves) in zip(axes_of, panels.items(), strict=True):
        for name, seeds in curves.items():
            count = min(map(len, seeds))
            steps = [step for step, _ in seeds[0][:count]]
            values = np.array([[value for _, value in seed[:count]] for seed in seeds])
            (line,) = axes.plot(steps, values.mean(axis=0), lw=1.4, label=name)
            axes.fill_between(
                steps, values.min(axis=0), values.max(axis=0), color=line.get_color(), alpha=0.2, lw=0
            )
        axes.set_title(title)
        axes.set_xlabel(label)
        if title in log:
            axes.set_yscale("log")
    axes_of[0].legend()
    return figure
