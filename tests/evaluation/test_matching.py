"""The matching of slots and objects is the best one there is."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment

from emorl.evaluation.matching import best_pairs


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (5, 1), (3, 3), (4, 7), (7, 4), (11, 11), (0, 3), (3, 0)])
def test_no_matching_is_better(shape: tuple[int, int]) -> None:
    rng = np.random.default_rng(0)
    for _ in range(30):
        # Rounded: ties, and zeros as between a slot and an object that do not meet.
        scores = rng.uniform(-0.5, 1, shape).round(1).clip(min=0)
        rows, columns = best_pairs(scores)
        assert len(rows) == min(shape)
        assert len(set(rows)) == len(set(columns)) == min(shape)
        assert (np.sort(rows) == rows).all()
        best = scores[linear_sum_assignment(scores, maximize=True)].sum()
        assert scores[rows, columns].sum() == pytest.approx(best)


def test_what_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match="finite"):
        best_pairs(np.array([[np.nan, 1.0]]))
