"""Tries: trainings that showed what goes wrong. A record of the past, one seed each; it is not run again."""

from __future__ import annotations

from emorl.evaluation.metrics import METRICS
from emorl.experiments.base import Experiment
from emorl.experiments.results import Result
from emorl.experiments.tables import count, table

SCORES = ("ari", "ari_with_background", "miou")
PAGES = ("comparison", "learning")


def sections(result: Result) -> dict[str, str]:
    """A table for each page that speaks of such trainings."""
    found = {}
    for page in PAGES:
        rows = [row for row in result.rows if row.values["page"] == page]
        shown = [name for name in SCORES if any(name in row.values for row in rows)]
        head = ["what was tried", "steps", *(METRICS[name].heading for name in shown), "what came of it"]
        lines = [
            [
                row.label,
                count(row.steps),
                *(score(row.values.get(name)) for name in shown),
                row.values["verdict"],
            ]
            for row in rows
        ]
        found[f"docs/{page}.md#tries"] = table(head, lines)
    return found


def score(value: float | None) -> str:
    """A score as it was written down: with two digits."""
    return "" if value is None else f"{value:.2f}"


EXPERIMENT = Experiment("What was tried and went wrong", None, sections=sections)
