"""Agreement of segmentations: against scikit-learn, against brute force over pairs of pixels, and by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import adjusted_rand_score

from emorl.data import DATASETS
from emorl.evaluation.segmentation import (
    adjusted_precision_recall,
    adjusted_rand_index,
    comparable,
    overlap_scores,
    used_slots,
)
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


def by_brute_force(predicted: np.ndarray, true: np.ndarray) -> tuple[float, float]:
    """Adjusted precision and recall of one image: every pair of object pixels is looked at, one by one."""
    pixels = [(p, t) for p, t in zip(predicted.flatten(), true.flatten(), strict=True) if t != 0]
    pairs = list(itertools.combinations(pixels, 2))
    same_slot = [one[0] == other[0] for one, other in pairs]
    same_object = [one[1] == other[1] for one, other in pairs]
    both = sum(a and b for a, b in zip(same_slot, same_object, strict=True))
    chance = sum(same_slot) * sum(same_object) / max(1, len(pairs))

    def adjusted(count: int) -> float:
        return 1.0 if abs(count - chance) < 1e-9 else (both - chance) / (count - chance)

    return adjusted(sum(same_slot)), adjusted(sum(same_object))


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 5), st.integers(1, 5), st.integers(1, 5))
def test_precision_and_recall_equal_brute_force(seed: int, K: int, objects: int, side: int) -> None:
    rng = np.random.default_rng(seed)
    predicted, true = rng.integers(K, size=(2, side, side)), rng.integers(objects, size=(2, side, side))
    found = adjusted_precision_recall(torch.from_numpy(predicted), torch.from_numpy(true))
    for b in range(2):
        expected = by_brute_force(predicted[b], true[b])
        assert [float(half[b]) for half in found] == pytest.approx(expected, abs=1e-12)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10_000), st.integers(1, 6), st.integers(2, 6), st.sampled_from([None, 0]))
def test_the_ari_is_the_harmonic_mean_of_its_halves(
    seed: int, K: int, objects: int, ignore: int | None
) -> None:
    rng = np.random.default_rng(seed)
    predicted = torch.from_numpy(rng.integers(K, size=(4, 7, 7)))
    true = torch.from_numpy(rng.integers(objects, size=(4, 7, 7)))
    precision, recall = adjusted_precision_recall(predicted, true, ignore=ignore)
    ari = adjusted_rand_index(predicted, true, ignore=ignore)
    # p + r = 0 only where both are 0: a random answer with no agreement above chance.
    mean = torch.where(precision + recall == 0, 0.0, 2 * precision * recall / (precision + recall))
    torch.testing.assert_close(ari, mean, rtol=1e-9, atol=1e-9)


def test_precision_and_recall_of_special_cases() -> None:
    def halves(predicted: list[int], true: list[int]) -> tuple[float, float]:
        precision, recall = adjusted_precision_recall(torch.tensor([[predicted]]), torch.tensor([[true]]))
        return precision.item(), recall.item()

    objects = [0, 0, 1, 1, 2, 2]
    assert halves([7, 3, 0, 0, 1, 1], objects) == (1, 1)  # the background is free to be anything
    assert halves([0, 0, 0, 0, 0, 0], objects) == (0, 1)  # all objects in one slot
    assert halves([0, 1, 2, 3, 4, 5], objects) == (1, 0)  # each pixel a slot of its own
    split = halves([0, 0, 1, 2, 3, 3], objects)
    assert split[0] == 1  # no slot mixes objects
    assert 0 < split[1] < 1  # but one object is in two slots
    assert halves([0, 0, 1, 1], [1, 1, 1, 1]) == (1, 0)  # one object: no slot can mix, but it is split
    assert halves([0, 0, 0, 0], [1, 1, 1, 1]) == (1, 1)
    assert halves([0, 1, 2], [0, 0, 0]) == (1, 1)  # no object: nothing to get wrong
    assert halves([0, 1], [0, 1]) == (1, 1)  # one pixel


def test_precision_and_recall_stay_exact_for_large_images() -> None:
    """One object in many slots: 36 864 pixels, whose pairs' products are too large for float64 to be exact."""
    predicted = (torch.arange(192 * 192) % 7).reshape(1, 192, 192)
    precision, recall = adjusted_precision_recall(predicted, torch.ones_like(predicted))
    assert precision.item() == 1
    assert recall.item() == pytest.approx(0, abs=1e-12)


def test_slots_count_from_one_percent_of_the_pixels_on() -> None:
    segmentation = torch.zeros(2, 10, 10, dtype=torch.long)
    segmentation[1, 0, :3] = torch.tensor([1, 2, 2])
    assert used_slots(segmentation, 5).tolist() == [1, 3]
    assert used_slots(segmentation, 5, share=0.02).tolist() == [1, 2]


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
