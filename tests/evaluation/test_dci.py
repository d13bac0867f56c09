"""DCI on codes whose answer is known, and on a model."""

from __future__ import annotations

import numpy as np
import pytest

from emorl import load
from emorl.data.base import FactorKind
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError
from emorl.evaluation.dci import dci, evaluate_dci, flattened, kinds_of, objects_of, purity

N = 400
KINDS: dict[str, FactorKind] = {"x": "continuous", "y": "continuous", "shape": "discrete"}


@pytest.fixture(scope="module")
def factors() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {"x": rng.random(N), "y": rng.random(N), "shape": rng.integers(3, size=N)}


def stacked(factors: dict[str, np.ndarray]) -> np.ndarray:
    columns = np.stack([(v - v.mean()) / v.std() for v in factors.values()], axis=1)
    return np.concatenate([columns, 0.01 * np.random.default_rng(1).standard_normal((N, 2))], axis=1)


@pytest.mark.parametrize("fast", [False, True])
def test_a_perfect_code_scores_one_and_a_rotated_one_does_not(
    factors: dict[str, np.ndarray], fast: bool
) -> None:
    codes = stacked(factors)
    perfect = dci(codes, factors, KINDS, fast=fast)
    assert perfect.disentanglement > 0.95
    assert perfect.completeness > 0.95
    assert perfect.accuracy == 1
    assert perfect.r2 > 0.95
    assert perfect.informativeness_published == pytest.approx(1 / 3)  # two of three factors are continuous
    mixing = (
        np.kron([[1, 1], [1, -1]], [[1, 1], [1, -1]]) / 2
    )  # a rotation in which every column has a part of all
    rotated = dci(codes[:, :4] @ mixing, factors, KINDS, fast=fast)
    assert rotated.disentanglement < 0.4
    assert rotated.completeness < 0.4
    assert rotated.r2 < perfect.r2


def test_a_code_that_knows_nothing_is_not_informative(factors: dict[str, np.ndarray]) -> None:
    noise = np.random.default_rng(3).standard_normal((N, 5))
    score = dci(noise, factors, KINDS, fast=True)
    assert score.accuracy < 0.5
    assert score.r2 < 0.1


def test_purity_by_hand() -> None:
    assert purity(np.eye(3)) == pytest.approx(1, abs=1e-6)
    assert purity(np.ones((4, 3))) == pytest.approx(0, abs=1e-6)
    half = np.array([[1.0, 0.0], [1.0, 1.0]])  # a row of 1 counts one third, a row of 0 two thirds
    assert purity(half) == pytest.approx(1 / 3, abs=1e-6)


def test_factors_of_several_numbers() -> None:
    colors = np.array([[0, 0, 1], [1, 0, 0], [0, 0, 1]])
    assert flattened({"color": colors}, {"color": "discrete"})["color"].tolist() == [0, 1, 0]
    assert set(flattened({"color": colors}, {"color": "continuous"})) == {"color_0", "color_1", "color_2"}


def test_mistakes_are_explained(factors: dict[str, np.ndarray]) -> None:
    with pytest.raises(UserError, match="at least 20 objects"):
        dci(np.zeros((5, 2)), {"x": np.arange(5.0)}, KINDS)
    with pytest.raises(UserError, match="the same x"):
        dci(stacked(factors), {"x": np.ones(N)}, KINDS)


def test_every_factor_counts_alike_however_well_it_is_known() -> None:
    """x is known exactly from one dimension, y badly from two. Unscaled, shuffling would let x count far more."""
    rng = np.random.default_rng(0)
    x, y = rng.random((2, 2000))
    codes = np.stack([x, y + 0.3 * rng.standard_normal(2000), y + 0.3 * rng.standard_normal(2000)], axis=1)
    fast, exact = (dci(codes, {"x": x, "y": y}, KINDS, fast=fast) for fast in (True, False))
    for found in (fast, exact):
        np.testing.assert_allclose(found.importance.sum(axis=0), [1, 1])
    assert fast.importance[0, 0] > 0.95
    by_hand = (1 + (1 - np.log(2) / np.log(3))) / 2  # one dimension for x, two for y, out of three
    assert fast.completeness == pytest.approx(by_hand, abs=0.06)
    assert fast.completeness == pytest.approx(exact.completeness, abs=0.06)


def test_released_weights_are_more_disentangled_than_the_same_code_rotated() -> None:
    scenes = Tetrominoes(seed=9, length=64)
    model = load("efficient-morl/tetrominoes")
    score = evaluate_dci(model, scenes, fast=True)
    assert score.objects > 150
    assert score.factors == ("x", "y", "shape", "color")
    assert score.importance.shape == (32, 4)
    codes, factors = objects_of(model, scenes)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((32, 32)))[0]
    rotated = dci(codes @ rotation, factors, kinds_of(factors, scenes.info.factors), fast=True)
    assert score.disentanglement > rotated.disentanglement + 0.05
    assert score.completeness > rotated.completeness + 0.1
    assert score.r2 > 0.9  # places are known, whichever way one looks
    assert score.accuracy > 0.3  # of 19 shapes and 6 colours; chance is 0.11
