"""Numeric fingerprints of the tiny presets at seed 0. They change only on purpose."""

from __future__ import annotations

import pytest
import torch

from emorl import PRESETS, DataConfig, build, evaluate, open_dataset

GOLDEN: dict[str, dict[str, float]] = {
    "efficient-morl/tetrominoes-tiny": {
        "mse": 0.340656,
        "nll": 2530.46,
        "kl_hierarchical": 413.617,
        "kl_refined": 183.378,
        "update_1": 4.99288,
    },
}


@pytest.mark.parametrize("name", GOLDEN)
def test_fingerprint(name: str) -> None:
    torch.manual_seed(0)
    scores = evaluate(build(PRESETS[name].model), open_dataset(DataConfig(), "test"), images=4)
    for key, value in GOLDEN[name].items():
        assert scores.mean(key) == pytest.approx(value, rel=1e-3), key
