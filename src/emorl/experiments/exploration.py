"""Exploration: the log of how the preset came about. A record of the past, one seed each; it is not run again."""

from __future__ import annotations

from emorl.experiments.base import Experiment
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import Cells, columns


def sections(result: Result) -> dict[str, str]:
    """Scores at 1000 and 2000 steps, and at the end."""
    cells: Cells = {
        "what was tried": lambda row: row.label,
        "ARI 1000": lambda row: ari_at(1000, row),
        "ARI 2000": lambda row: ari_at(2000, row),
        "last step": lambda row: str(row.curve[-1]["step"]),
        "ARI": lambda row: f"{row.curve[-1]['ari']:.3f}",
        "MSE (1e-4)": lambda row: f"{1e4 * row.curve[-1]['mse']:.0f}",
        "KL": lambda row: f"{row.curve[-1]['kl']:.0f}",
        "verdict": lambda row: str(row.values["verdict"]),
    }
    return {"docs/learning.md#exploration": columns(result.rows, cells)}


def ari_at(step: int, row: Row) -> str:
    """The ARI after that many steps as text, empty if it was not measured then."""
    return next((f"{point['ari']:.2f}" for point in row.curve if point["step"] == step), "")


EXPERIMENT = Experiment("How the preset came about", None, sections=sections)
