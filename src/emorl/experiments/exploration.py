"""Exploration: the log of how the preset came about. A record of the past, one seed each; it is not run again."""

from __future__ import annotations

from emorl.experiments.base import Experiment
from emorl.experiments.results import Result
from emorl.experiments.tables import table

HEAD = ("what was tried", "ARI 1000", "ARI 2000", "last step", "ARI", "MSE (1e-4)", "KL", "verdict")
EARLY = (1000, 2000)  # steps


def sections(result: Result) -> dict[str, str]:
    """Scores at 1000 and 2000 steps, and at the end."""
    lines = []
    for row in result.rows:
        at = {point["step"]: point for point in row.curve}
        last = row.curve[-1]
        lines.append([
            row.label, *(f"{at[step]['ari']:.2f}" if step in at else "" for step in EARLY), str(last["step"]),
            f"{last['ari']:.3f}", f"{1e4 * last['mse']:.0f}", f"{last['kl']:.0f}", row.values["verdict"],
        ])  # fmt: skip
    return {"docs/learning.md#exploration": table(HEAD, lines)}


EXPERIMENT = Experiment("How the preset came about", None, sections=sections)
