"""evaluate(): scores of a model, scene by scene."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from emorl.data import DataConfig, open_dataset
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.models import build
from emorl.models.base import Model, NotFinite
from emorl.runs.presets import PRESETS


@pytest.fixture
def model() -> Model:
    return build(PRESETS["efficient-morl/tetrominoes-tiny"].model)


def test_scores_do_not_depend_on_the_batch_size(model: Model) -> None:
    scenes = open_dataset(DataConfig(), "test")
    one = evaluate(model, scenes, images=7, batch_size=7)
    other = evaluate(model, scenes, images=7, batch_size=2)
    for name in one.values:
        torch.testing.assert_close(one.values[name], other.values[name], rtol=1e-4, atol=1e-4, msg=name)
    both = evaluate(model, scenes, images=7, seeds=2)
    torch.testing.assert_close(both.values["nll"][:1], one.values["nll"])
    again = evaluate(model, scenes, images=7, seed=1)
    torch.testing.assert_close(both.values["nll"][1:], again.values["nll"])
    assert again.mean("nll") != one.mean("nll")
    spread = torch.tensor([one.mean("nll"), again.mean("nll")]).std()
    assert both.deviation("nll") == pytest.approx(float(spread), rel=1e-3)
    assert both.to_dict()["deviation_over_seeds"]["nll"] == both.deviation("nll")


def test_scores_are_complete(model: Model) -> None:
    scenes = open_dataset(DataConfig(), "test")
    progress = []
    scores = evaluate(
        model, scenes, images=5, num_slots=6, num_steps=2, progress=lambda *at: progress.append(at)
    )
    summary = scores.summary()
    assert {"ari", "mse", "nll", "kl_hierarchical", "kl"} <= set(summary)
    assert (summary["images"], summary["num_slots"], summary["num_steps"], summary["seed"]) == (5, 6, 2, 0)
    assert np.shape(scores.to_dict()["per_image"]["ari"]) == (1, 5)
    assert scores.standard_error("mse") == pytest.approx(float(scores.values["mse"][0].std() / 5**0.5))
    assert progress[-1] == (5, 5)


def test_mse_and_kl_are_what_they_say(model: Model) -> None:
    scenes = open_dataset(DataConfig(), "test")
    scores = evaluate(model, scenes, images=4, num_steps=1)
    # The Gaussian NLL is a function of the MSE alone.
    sigma, elements = 0.3, 3 * 35 * 35
    nll = elements * (scores.values["mse"] / (2 * sigma**2) + np.log(sigma))
    torch.testing.assert_close(scores.values["nll"], nll, rtol=1e-5, atol=0)
    layers = sum(scores.values[f"kl_{l}"] for l in (1, 2, 3))
    torch.testing.assert_close(scores.values["kl_hierarchical"], layers)
    without = evaluate(model, scenes, images=4, num_steps=0)
    torch.testing.assert_close(without.values["kl_1"], scores.values["kl_1"])  # stage 1 is the same
    assert without.values["kl"].isfinite().all()


def test_means_and_tries_are_told_apart_in_the_settings(model: Model) -> None:
    scenes = open_dataset(DataConfig(), "test")
    one = evaluate(model, scenes, images=8)
    best = evaluate(model, scenes, images=8, tries=3)
    means = evaluate(model, scenes, images=8, means=True)
    assert (best.values["mse"] <= one.values["mse"]).all()
    assert best.mean("mse") < one.mean("mse")
    sigma, elements = 0.3, 3 * 35 * 35  # all scores of an image belong to the same try
    nll = elements * (best.values["mse"] / (2 * sigma**2) + np.log(sigma))
    torch.testing.assert_close(best.values["nll"], nll, rtol=1e-5, atol=0)
    assert not torch.equal(means.values["mse"], one.values["mse"])
    assert (one.settings["tries"], best.settings["tries"], means.settings["means"]) == (1, 3, True)


def test_impossible_evaluations_are_refused(model: Model) -> None:
    with pytest.raises(UserError, match="At least one image"):
        evaluate(model, Tetrominoes(length=3), images=0)
    other = Tetrominoes(length=3)
    other.info = type(other.info)("x", 64, 3, {})
    with pytest.raises(UserError, match="35 pixels a side; x has 64"):
        evaluate(model, other)


def test_a_model_that_answers_with_nonsense_is_not_scored(model: Model) -> None:
    """Its weights are finite, but so large that what is computed with them is not."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(1e30)
    with pytest.raises(NotFinite, match="computes numbers that are not finite"):
        evaluate(model, Tetrominoes(length=3))
    with pytest.raises(NotFinite, match="computes numbers that are not finite"):
        model.decompose(Tetrominoes()[0].image[None])
