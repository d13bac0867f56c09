"""Does it learn? Minutes each, so behind the marker `slow`."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from emorl import PRESETS, evaluate, open_dataset, train


@pytest.mark.slow
def test_tetrominoes_fast_finds_objects(tmp_path: Path) -> None:
    """Three minutes on two cores. The five published seeds have an ARI near 0.9 here; a plateau would be near 0."""
    run = PRESETS["efficient-morl/tetrominoes-fast"]
    run = replace(run, train=replace(run.train, steps=1500))
    model = train(run, tmp_path)
    scenes = open_dataset(run.data, "test")
    scores = evaluate(model, scenes, images=160)
    assert scores.mean("ari") > 0.8
    assert scores.mean("mse") < 0.025  # the mean image has 0.046
    assert evaluate(model, scenes, images=160, num_steps=0).mean("ari") > 0.9 * scores.mean("ari")
