"""Charts of sweeps: scores against what was varied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from emorl.plots.style import Chart, blank, save_chart, styled

TITLES = {
    "ari": "ARI (foreground)",
    "mse": "MSE",
    "kl_hierarchical": "KL of stage 1, all layers (nats)",
    "kl_refined": "KL of the last step (nats)",
    "slots_used": "slots used",
    "agreement": "agreement of inferences (ARI)",
}


@styled
def sweep_figure(curves: Mapping[str, Sequence[Mapping[str, float]]], *, label: str) -> Chart:
    """One panel per score there is, one line per curve; bars are standard errors, where they are known."""
    names = [name for name in TITLES if any(name in row for rows in curves.values() for row in rows)]
    figure = blank(3.3 * len(names), 2.8)
    panels: Any = figure.subplots(1, len(names), squeeze=False)[0]
    for axes, name in zip(panels, names, strict=True):
        for curve, rows in curves.items():
            known = [row for row in rows if name in row]
            axes.errorbar(
                [row["value"] for row in known],
                [row[name] for row in known],
                yerr=[row.get(f"{name}_error", 0.0) for row in known],
                marker="o", ms=4, lw=1.2, capsize=2, label=curve,
            )  # fmt: skip
        axes.set_title(TITLES[name])
        axes.set_xlabel(label)
    if len(curves) > 1:
        panels[0].legend()
    return figure


def sweep_chart(rows: Sequence[Mapping[str, float]], path: Path, *, label: str) -> None:
    """Draws one sweep into a PNG."""
    save_chart(sweep_figure({"": rows}, label=label), path)
