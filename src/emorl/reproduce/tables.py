"""The paper's tables: decomposition (1), ablations (2) and disentanglement (3)."""

from __future__ import annotations

from collections.abc import Sequence

from emorl.evaluation.dci import evaluate_dci
from emorl.evaluation.evaluate import evaluate
from emorl.reproduce.trained import Row, Trained

SCORES = ("ari", "mse", "kl_refined", "kl_hierarchical")


def decomposition(trained: Sequence[Trained]) -> list[Row]:
    """ARI, MSE and KL on the held-out scenes, with the configured refinement and without any."""
    rows = []
    for one in trained:
        scenes = one.scenes("test")
        scores = evaluate(one.model, scenes)
        found = {name: scores.mean(name) for name in SCORES if name in scores.values}
        if "kl_hierarchical" in scores.values:  # a posterior that is there before any refinement
            found["ari_at_I=0"] = evaluate(one.model, scenes, num_steps=0).mean("ari")
        rows.append(one.row(**found))
    return rows


def ablations(trained: Sequence[Trained]) -> list[Row]:
    """The same on validation scenes, where the paper compares variants."""
    rows = []
    for one in trained:
        scores = evaluate(one.model, one.scenes("validation"))
        rows.append(one.row(**{name: scores.mean(name) for name in SCORES if name in scores.values}))
    return rows


def disentanglement(trained: Sequence[Trained]) -> list[Row]:
    """DCI, and informativeness as the paper defines it beside accuracy and R2."""
    names = ("disentanglement", "completeness", "informativeness_published", "accuracy", "r2")
    rows = []
    for one in trained:
        found = evaluate_dci(one.model, one.scenes("test"), fast=False).summary()
        rows.append(one.row(**{name: found[name] for name in names}))
    return rows
