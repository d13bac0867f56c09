"""Charts, with matplotlib, which is imported only when one is drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Curve = Sequence[Mapping[str, float]]  # points with "step", "cpu_minutes" and scores

PANELS = {"ari": "ARI (foreground)", "mse": "MSE", "kl_refined": "KL of the refined posterior (nats)"}


def learning_curves(curves: Mapping[str, Curve], path: Path, *, goals: Mapping[str, float]) -> None:
    """Draws ARI, MSE and KL against the step, one line per run; dashed lines are the paper's values, `goals`."""
    from matplotlib.figure import Figure  # not pyplot: no global state, no display needed

    figure = Figure(figsize=(10, 3), layout="constrained")
    panels: Any = figure.subplots(1, len(PANELS))
    for axes, (name, title) in zip(panels, PANELS.items(), strict=True):
        for label, curve in curves.items():
            axes.plot(
                [point["step"] for point in curve], [point[name] for point in curve], label=label, lw=1.2
            )
        if name in goals:
            axes.axhline(goals[name], color="black", lw=0.8, ls="--")
        axes.set_title(title, fontsize=10)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        if name != "ari":
            axes.set_yscale("log")
    panels[0].set_ylim(0, 1.02)
    panels[0].legend(fontsize=8, frameon=False)
    figure.savefig(path, dpi=110)
