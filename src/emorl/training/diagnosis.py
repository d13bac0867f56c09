"""What a run that goes wrong looks like, in plain words."""

from __future__ import annotations

from collections.abc import Mapping

COLLAPSED, ONE_SLOT = 0.05, 1.5


def diagnose(scores: Mapping[str, float]) -> str | None:
    """Returns what looks wrong in validation `scores` and what to try, or None.

    Every run looks collapsed at the start; ask when it should have left that state.
    """
    explained, used = scores["explained"], scores["slots_used"]
    if explained < COLLAPSED:
        return (
            f"This run looks collapsed: reconstructions explain {100 * max(0.0, explained):.0f} % of the images' "
            "variance. Weigh the reconstruction more against the KL: for efficient-morl a lower "
            "--model.objective.kl-weight at first, a higher --model.objective.nll-weight, or "
            "--model.inference.scale-bias -6."
        )
    if used < ONE_SLOT:
        return (
            f"All objects seem to sit in one slot ({used:.1f} slots used on average). Another --train.seed often "
            "helps; so do more refinement steps early on (--train.num-steps 3) and a lower learning rate."
        )
    return None
