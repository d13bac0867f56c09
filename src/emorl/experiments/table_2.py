"""Table 2: ablations. Rows are named after what they change."""

from __future__ import annotations

from collections.abc import Mapping

from emorl.experiments.base import Experiment, scoring
from emorl.experiments.scales import SCALES, Changes, ScaleName, Wanted, of_variants, variants
from emorl.geco import GecoConfig
from emorl.report.paper import PUBLISHED_ABLATIONS
from emorl.schedules import Schedule

FULL = "full: GECO"
ELBO = "neither GECO nor KL ramp: the plain ELBO"
FIXED = "weight 3.5 instead of GECO"
ALONE: Mapping[str, Changes] = {  # each changes one thing
    "bottom-up prior": {"model.objective.prior": "bottom-up"},
    "reversed prior": {"model.objective.prior": "reversed"},
    "one GRU instead of the DualGRU": {"model.inference.gru": "single"},
    "increasing loss weights": {"model.objective.loss_weights": "increasing"},
}
OFF: Changes = {"model.objective.geco": GecoConfig()}
PAPER = {  # our rows that are what the paper's are
    FULL: "full",
    f"{FULL}, bottom-up prior": "bottom-up prior",
    f"{FULL}, reversed prior": "reversed prior",
    ELBO: "without GECO",
}
STEPS = 200_000  # of the paper, on Tetrominoes


def rows(scale: ScaleName) -> dict[str, Changes]:
    """Returns changes to the preset by row. If the preset has no GECO (cpu, tiny), rows are with and without it."""
    full = SCALES[scale].full
    found: dict[str, Changes] = {FULL: full}
    found |= {f"{FULL}, {name}": {**full, **changes} for name, changes in ALONE.items()}
    found["GECO off"] = {**full, **OFF}
    found[ELBO] = {
        **full,
        **OFF,
        "model.objective.nll_weight": 1.0,
        "model.objective.kl_weight": Schedule.parse(1),
    }
    if full:
        found[FIXED] = {}
        found |= {f"{FIXED}, {name}": changes for name, changes in ALONE.items()}
    return found


def runs(scale: ScaleName) -> list[Wanted]:
    """Returns the trainings of all rows, with every seed of the scale."""
    return variants(rows(scale), scale)


EXPERIMENT = Experiment(
    "Ablations",
    scoring("validation", "ari", "mse", "kl", "kl_hierarchical"),  # the paper compares variants there
    ("ari", "mse", "kl"),
    paper="The reversed prior++ is best; without GECO posteriors collapse; without the DualGRU the KL is high.",
    protocol=of_variants,
    runs=runs,
    published={ours: PUBLISHED_ABLATIONS[theirs, "tetrominoes"] for ours, theirs in PAPER.items()},
    published_steps=dict.fromkeys(PAPER, STEPS),
)
