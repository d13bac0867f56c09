"""Scores: ARI against scikit-learn, and evaluate()."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from emorl.data import DATASETS, DataConfig, open_dataset
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.segmentation import adjusted_rand_index, comparable, overlap_scores
from emorl.models import build
from emorl.presets import PRESETS
from emorl.types import Decomposition, Scene


def expected(predicted: torch.Tensor, true: torch.Tensor, ignore: int | None) -> list[float]:
    pairs = zip(predicted.flatten(1), true.flatten(1), strict=True)
    kept = [(p, t) if ignore is None else (p[t != ignore], t[t != ignore]) for p, t in pairs]
    return [adjusted_rand_score(t.numpy(), p.numpy()) for p, t in kept]


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10_000),
    st.integers(1, 6),
    st.integers(1, 6),
    st.sampled_from([None, 0, 2]),
    st.integers(1, 9),
)
def test_ari_equals_scikit_learn(seed: int, K: int, objects: int, ignore: int | None, side: int) -> None:
    rng = np.random.default_rng(seed)
    predicted = torch.from_numpy(rng.integers(K, size=(3, side, side)))
    true = torch.from_numpy(rng.integers(objects, size=(3, side, side)))
    ours = adjusted_rand_index(predicted, true, ignore=ignore)
    np.testing.assert_allclose(ours.numpy(), expected(predicted, true, ignore), atol=1e-12)


def test_ari_of_special_cases() -> None:
    true = torch.tensor([[[0, 0, 1, 1], [0, 2, 2, 2]]])
    same = torch.tensor([[[3, 0, 2, 2], [1, 5, 5, 5]]])  # background is free to be anything
    assert adjusted_rand_index(same, true).item() == 1
    one_group = torch.zeros_like(true)
    assert adjusted_rand_index(one_group, true).item() == 0  # all objects in one slot
    assert adjusted_rand_index(true, one_group).item() == 1  # no object at all: nothing to get wrong
    assert adjusted_rand_index(one_group, torch.ones_like(true)).item() == 1  # one object in one slot
    single = torch.tensor([[[0, 0], [0, 1]]])
    assert adjusted_rand_index(single, single).item() == 1  # one pixel
    assert adjusted_rand_index(same, true, ignore=None).item() < 1


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 4))
def test_overlaps_equal_brute_force(seed: int, K: int, objects: int) -> None:
    """Matching by trying every permutation, and intersections over unions pixel by pixel."""
    rng = np.random.default_rng(seed)
    predicted, true = rng.integers(K, size=(2, 5, 6)), rng.integers(objects + 1, size=(2, 5, 6))
    found = overlap_scores(torch.from_numpy(predicted), torch.from_numpy(true))
    for b in range(2):
        present = [m for m in range(1, objects + 1) if (true[b] == m).any()]
        table = [
            [
                ((predicted[b] == k) & (true[b] == m)).sum() / ((predicted[b] == k) | (true[b] == m)).sum()
                for m in present
            ]
            for k in range(K)
        ]
        slots = [*range(K), *[None] * len(present)]
        matchings = itertools.permutations(slots, len(present))
        best = max(sum(table[k][m] for m, k in enumerate(chosen) if k is not None) for chosen in matchings)
        count = max(1, len(present))
        assert found["miou"][b].item() == pytest.approx(best / count if present else 1)
        expected = np.max(table, axis=0).sum() / count if present else 1
        assert found["mbo"][b].item() == pytest.approx(expected)


def test_overlaps_of_special_cases() -> None:
    true = torch.tensor([[[0, 0, 1, 1], [0, 2, 2, 2]]])
    assert overlap_scores(true, true) == {"miou": 1, "mbo": 1}
    one_group = torch.zeros_like(true)
    scores = overlap_scores(
        one_group, true
    )  # one slot has everything: only one object can be matched with it
    assert scores["miou"].item() == pytest.approx(3 / 8 / 2)
    assert scores["mbo"].item() == pytest.approx((2 / 8 + 3 / 8) / 2)


def test_ari_stays_exact_for_large_images() -> None:
    generator = torch.Generator().manual_seed(0)
    predicted = torch.randint(11, (1, 400, 400), generator=generator)
    true = (predicted + (torch.rand(1, 400, 400, generator=generator) < 0.3).long()) % 11
    assert adjusted_rand_index(predicted, true).item() == pytest.approx(
        expected(predicted, true, 0)[0], abs=1e-12
    )


def test_ari_refuses_other_shapes() -> None:
    with pytest.raises(ValueError, match="differ in shape"):
        adjusted_rand_index(torch.zeros(1, 2, 2), torch.zeros(1, 3, 3))


@pytest.fixture
def model() -> torch.nn.Module:
    return build(PRESETS["efficient-morl/tetrominoes-tiny"].model)


def test_scores_do_not_depend_on_the_batch_size(model) -> None:
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


def test_scores_are_complete(model) -> None:
    scenes = open_dataset(DataConfig(), "test")
    progress = []
    scores = evaluate(
        model, scenes, images=5, num_slots=6, num_steps=2, progress=lambda *at: progress.append(at)
    )
    summary = scores.summary()
    assert {"ari", "mse", "nll", "kl_hierarchical", "kl_refined"} <= set(summary)
    assert (summary["images"], summary["num_slots"], summary["num_steps"], summary["seed"]) == (5, 6, 2, 0)
    assert np.shape(scores.to_dict()["per_image"]["ari"]) == (1, 5)
    assert scores.standard_error("mse") == pytest.approx(float(scores.values["mse"][0].std() / 5**0.5))
    assert progress[-1] == (5, 5)


def test_mse_and_kl_are_what_they_say(model) -> None:
    scenes = open_dataset(DataConfig(), "test")
    scores = evaluate(model, scenes, images=4, num_steps=1)
    # The Gaussian NLL is a function of the MSE alone.
    sigma, elements = 0.3, 3 * 35 * 35
    nll = elements * (scores.values["mse"] / (2 * sigma**2) + np.log(sigma))
    torch.testing.assert_close(scores.values["nll"], nll, rtol=1e-4, atol=0.1)
    layers = sum(scores.values[f"kl_{l}"] for l in (1, 2, 3))
    torch.testing.assert_close(scores.values["kl_hierarchical"], layers)
    without = evaluate(model, scenes, images=4, num_steps=0)
    torch.testing.assert_close(without.values["kl_1"], scores.values["kl_1"])  # stage 1 is the same
    assert without.values["kl_refined"].isfinite().all()


def test_means_and_tries_are_told_apart_in_the_settings(model) -> None:
    scenes = open_dataset(DataConfig(), "test")
    one = evaluate(model, scenes, images=8)
    best = evaluate(model, scenes, images=8, tries=3)
    means = evaluate(model, scenes, images=8, means=True)
    assert (best.values["mse"] <= one.values["mse"]).all()
    assert best.mean("mse") < one.mean("mse")
    sigma, elements = 0.3, 3 * 35 * 35  # all scores of an image belong to the same try
    nll = elements * (best.values["mse"] / (2 * sigma**2) + np.log(sigma))
    torch.testing.assert_close(best.values["nll"], nll, rtol=1e-4, atol=0.1)
    assert not torch.equal(means.values["mse"], one.values["mse"])
    assert (one.settings["tries"], best.settings["tries"], means.settings["means"]) == (1, 3, True)


def test_impossible_evaluations_are_refused(model) -> None:
    with pytest.raises(UserError, match="At least one image"):
        evaluate(model, Tetrominoes(length=3), images=0)
    other = Tetrominoes(length=3)
    other.info = type(other.info)("x", 64, 3, {})
    with pytest.raises(UserError, match="35 pixels a side; x has 64"):
        evaluate(model, other)


def test_masks_are_compared_at_the_larger_size_if_the_truth_is_known_there() -> None:
    masks = torch.zeros(1, 2, 1, 2, 2)
    masks[:, 0, :, :, 0] = 1
    masks[:, 1, :, :, 1] = 1
    answer = Decomposition(masks, torch.zeros(1, 2, 3, 2, 2), torch.zeros(1, 2, 1))
    full = torch.tensor([[1, 1, 2, 2]]).expand(1, 4, 4)
    small = torch.ones(1, 2, 2, dtype=torch.long)
    scene = Scene(torch.zeros(1, 3, 2, 2), small, {}, full)
    predicted, true = comparable(answer, scene)
    assert predicted.tolist() == [[[0, 0, 1, 1]] * 4]
    assert adjusted_rand_index(predicted, true).item() == 1
    assert comparable(answer, Scene(scene.image, small, {}))[1] is small


def test_clevr_scenes_carry_the_segmentation_the_paper_scores() -> None:
    scene = DATASETS["clevr6-fast"](length=1)[0]
    assert scene.segmentation_full is not None
    assert scene.segmentation_full.shape == (192, 192)
    batch = Scene.stack([scene, scene]).to(torch.device("cpu"))
    assert batch.segmentation_full is not None
    truth = torch.nn.functional.one_hot(scene.segmentation_full.long()).movedim(-1, 0)[None, :, None]
    answer = Decomposition(truth.float(), truth.float().expand(-1, -1, 3, -1, -1), torch.zeros(1, 1, 1))
    predicted, true = comparable(answer, Scene.stack([scene]))
    assert adjusted_rand_index(predicted, true).item() == 1
