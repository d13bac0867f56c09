"""DCI (Eastwood & Williams, 2018): do single dimensions of a slot stand for single factors of an object?

Trees predict each factor from a slot; how much each dimension helps is its importance. A dimension is disentangled if
it serves one factor, a factor is complete if one dimension serves it, a code is informative if prediction works.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

import numpy as np

from emorl.data.base import Array, FactorKind, SceneDataset
from emorl.errors import UserError, missing
from emorl.evaluation.inference import infer_scenes
from emorl.evaluation.matching import best_pairs
from emorl.evaluation.segmentation import comparable, iou, true_sizes
from emorl.models.base import Model

LEAST_PIXELS, LEAST_IOU = 50, 0.1  # of an object and of its match, to be counted (Difference 38)
NOT_FACTORS = ("visibility", "visible_pixels")
SPLIT_SEED = 5  # the authors'


@dataclass(frozen=True)
class DCI:
    """Scores from 0 to 1, and what they come from."""

    disentanglement: float
    completeness: float
    accuracy: float  # of discrete factors; NaN if there are none
    r2: float  # of continuous ones
    # As the paper's table has it: a continuous factor counts 0 (Difference 37).
    informativeness_published: float
    importance: Array  # (D, factors); the importances for one factor add up to 1
    factors: tuple[str, ...]
    objects: int

    def summary(self) -> dict[str, float]:
        """The scores by their names in METRICS."""
        names = ("disentanglement", "completeness", "accuracy", "r2", "informativeness_published", "objects")
        return {f"dci_{name}": getattr(self, name) for name in names}


def dci(
    codes: Array, factors: Mapping[str, Array], kinds: Mapping[str, FactorKind], *, fast: bool = False
) -> DCI:
    """DCI of `codes` (N, D) and factors (N,) of N objects. Trees are fitted to one half and scored on the other."""
    if len(codes) < 20:
        raise UserError(f"DCI needs at least 20 objects; {len(codes)} were found and matched.")
    order = np.random.default_rng(SPLIT_SEED).permutation(len(codes))
    fit, test = order[: len(order) // 2], order[len(order) // 2 :]
    importance, scores = np.zeros((codes.shape[1], len(factors))), {}
    for column, (name, values) in enumerate(factors.items()):
        is_discrete = kinds[name] == "discrete"
        if len(np.unique(values[fit])) < 2:
            raise UserError(f"All objects have the same {name}: DCI cannot tell whether a slot knows it.")
        trees = fitted(codes[fit], values[fit], is_discrete, fast)
        scores[name] = trees.score(codes[test], values[test])  # accuracy, or R2
        importance[:, column] = importances(trees, codes[test], values[test], fast)
    discrete = [scores[name] for name in factors if kinds[name] == "discrete"]
    continuous = [scores[name] for name in factors if kinds[name] == "continuous"]
    return DCI(
        disentanglement=purity(importance),
        completeness=purity(importance.T),
        accuracy=float(np.mean(discrete)) if discrete else float("nan"),
        r2=float(np.mean(continuous)) if continuous else float("nan"),
        informativeness_published=float(np.sum(discrete)) / len(factors),
        importance=importance,
        factors=tuple(factors),
        objects=len(codes),
    )


def check_trees() -> None:
    """Raises UserError if scikit-learn is not installed."""
    if find_spec("sklearn") is None:
        raise missing("scikit-learn", "dci", "DCI")


def fitted(codes: Array, values: Array, is_discrete: bool, fast: bool) -> Any:
    """Gradient-boosted trees; histograms make them faster and give no importances of their own."""
    from sklearn import ensemble  # here, because importing it takes a second

    if fast:
        kind = (
            ensemble.HistGradientBoostingClassifier if is_discrete else ensemble.HistGradientBoostingRegressor
        )
        return kind(random_state=0, max_iter=50).fit(codes, values)
    kind = ensemble.GradientBoostingClassifier if is_discrete else ensemble.GradientBoostingRegressor
    return kind(random_state=0).fit(codes, values)


def importances(trees: Any, codes: Array, values: Array, fast: bool) -> Array:
    """How much each dimension helps to predict one factor, (D,). They add up to 1, so that all factors count alike.

    Histogram trees have no importances of their own: theirs is the score lost when a dimension is shuffled. It is no
    share but a difference of accuracies or of R2, so it is divided by its sum, as the exact trees do it themselves.
    """
    if fast:
        from sklearn.inspection import permutation_importance

        found = permutation_importance(trees, codes, values, n_repeats=2, random_state=0)
        raw = np.maximum(found.importances_mean, 0)
    else:
        raw = np.abs(trees.feature_importances_)
    return np.asarray(raw / max(float(raw.sum()), 1e-12))


def purity(importance: Array) -> float:
    """1 if every row of `importance` has one entry, 0 if all are alike; rows count by their sum."""
    share = importance + 1e-11
    share = share / share.sum(axis=1, keepdims=True)
    base = max(2, importance.shape[1])
    entropy = -(share * np.log(share)).sum(axis=1) / np.log(base)
    weight = importance.sum(axis=1) / max(float(importance.sum()), 1e-12)
    return float((weight * (1 - entropy)).sum())


def objects_of(
    model: Model, scenes: SceneDataset, *, images: int | None = None, seed: int = 0
) -> tuple[Array, dict[str, Array]]:
    """Codes (N, D) and factors (N,) of the objects that a slot was matched with, over the first `images` scenes."""
    codes: list[Array] = []
    rows: dict[str, list[Array]] = {name: [] for name in scenes.info.factors if name not in NOT_FACTORS}
    for batch, answer in infer_scenes(model, scenes, images=images, seed=seed):
        predicted, true = comparable(answer, batch)
        shared = iou(predicted, true)[:, :, 1:]
        sizes = true_sizes(true, shared.shape[2] + 1)[:, 1:]
        for b, scores in enumerate(shared.cpu().numpy()):
            for slot, m in zip(*best_pairs(scores), strict=True):
                if sizes[b, m] >= LEAST_PIXELS and scores[slot, m] >= LEAST_IOU:
                    codes.append(answer.slots[b, slot].cpu().numpy())
                    for name, values in rows.items():
                        values.append(batch.factors[name][b, m].cpu().numpy())
    if not codes:
        raise UserError("No slot covers an object well enough for DCI.")
    return np.stack(codes), flattened(
        {name: np.stack(values) for name, values in rows.items()}, scenes.info.factors
    )


def flattened(factors: Mapping[str, Array], kinds: Mapping[str, FactorKind]) -> dict[str, Array]:
    """Factors of several numbers become one label if discrete, and several factors if continuous."""
    flat: dict[str, Array] = {}
    for name, values in factors.items():
        if values.ndim == 1:
            flat[name] = values
        elif kinds[name] == "discrete":
            flat[name] = np.unique(values, axis=0, return_inverse=True)[1].reshape(-1)
        else:
            flat |= {f"{name}_{column}": values[:, column] for column in range(values.shape[1])}
    return flat


def kinds_of(names: Mapping[str, Array], kinds: Mapping[str, FactorKind]) -> dict[str, FactorKind]:
    """The kind of each factor, also of those that `flattened` has numbered."""
    return {name: kinds[name] if name in kinds else kinds[name.rsplit("_", 1)[0]] for name in names}


def evaluate_dci(
    model: Model, scenes: SceneDataset, *, images: int | None = None, seed: int = 0, fast: bool = False
) -> DCI:
    """DCI of a model's slots on the first `images` scenes."""
    check_trees()
    codes, factors = objects_of(model, scenes, images=images, seed=seed)
    return dci(codes, factors, kinds_of(factors, scenes.info.factors), fast=fast)
