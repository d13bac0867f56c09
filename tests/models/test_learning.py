"""Does it learn? Seconds for every model on a toy; minutes, behind the marker `slow`, for objects."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch

from emorl import PRESETS, evaluate, open_dataset, train
from emorl.models import MODELS, build
from small_models import TOYS, squares

STEPS = {
    "efficient-morl": 90,
    "efficient-morl recipe": 180,
    "slot-attention": 150,
    "slot-mlp": 120,
    "genesis": 90,
    "genesis-s": 60,
    "monet": 90,
    "iodine": 60,
    "genesis-v2": 150,
}


def test_no_model_is_left_out() -> None:
    assert set(STEPS) == set(TOYS)
    assert {type(config) for config in TOYS.values()} == {model.Config for model in MODELS.values()}


@pytest.mark.parametrize("name", STEPS)
def test_it_learns_to_tell_six_pictures_apart(name: str) -> None:
    """Without a look at the image, the mean of the six would be the best picture; half its error needs more."""
    torch.manual_seed(0)
    x, model = squares(6), build(TOYS[name])
    fixed = (x - x.mean(dim=0)).square().mean()

    def error() -> float:
        return float((model.decompose(x, seed=0).image - x).square().mean() / fixed)

    untrained = error()
    optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
    losses = []
    for _ in range(STEPS[name]):
        outcome = model(x)
        optimizer.zero_grad()
        outcome.loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        model.adapt({term: value.mean() for term, value in outcome.terms.items()})
        losses.append(outcome.loss.item())
    assert untrained > 0.95
    assert error() < 0.4
    assert max(losses[-10:]) < min(losses[:10])


@pytest.mark.slow
def test_tetrominoes_fast_finds_objects(tmp_path: Path) -> None:
    """Three minutes on two cores. The five published seeds have an ARI near 0.9 here; a plateau would be near 0."""
    run = PRESETS["efficient-morl/tetrominoes"]
    run = replace(run, train=replace(run.train, steps=1500))
    model = train(run, tmp_path)
    scenes = open_dataset(run.data, "test")
    scores = evaluate(model, scenes, images=160)
    assert scores.mean("ari") > 0.8
    assert scores.mean("mse") < 0.025  # the mean image has 0.046
    assert evaluate(model, scenes, images=160, num_steps=0).mean("ari") > 0.9 * scores.mean("ari")
