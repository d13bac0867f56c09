"""Agreement of predicted and true segmentations."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from emorl.evaluation.matching import best_pairs
from emorl.types import Decomposition, Scene


def comparable(answer: Decomposition, scenes: Scene) -> tuple[Tensor, Tensor]:
    """Predicted and true segmentation where the paper compares them: at the larger size, if there is one."""
    if scenes.segmentation_full is None:
        return answer.segmentation, scenes.segmentation
    return answer.segmentation_at(scenes.segmentation_full.shape[-1]), scenes.segmentation_full


def adjusted_rand_index(predicted: Tensor, true: Tensor, *, ignore: int | None = 0) -> Tensor:
    """Agreement of two segmentations (B, H, W), corrected for chance: 1 is perfect, 0 is random. Returns (B,).

    Pixels whose true id is `ignore` are left out; the benchmark leaves out the background, id 0. As in scikit-learn,
    the score is 1 where both put all pixels into one group or each into its own, and where no pixel is left.
    """
    pairs = Pairs.count(predicted, true, ignore)
    best = (pairs.in_predicted + pairs.in_true) / 2
    # Both segmentations have the same groups, so the chance-corrected ratio would be 0 / 0.
    is_trivial = (pairs.in_predicted == pairs.in_both) & (pairs.in_true == pairs.in_both)
    above_chance = pairs.in_both - pairs.expected
    return torch.where(is_trivial, 1.0, above_chance / torch.where(is_trivial, 1.0, best - pairs.expected))


def adjusted_precision_recall(
    predicted: Tensor, true: Tensor, *, ignore: int | None = 0
) -> tuple[Tensor, Tensor]:
    """The two halves of the ARI, which is their harmonic mean. Each is 1 if perfect, 0 if random; (B,) both.

    Precision: are two pixels of one predicted group of one object? Recall: are two pixels of one object in one group?
    Where every answer would be right, e.g. precision with a single object, the score is 1.
    """
    pairs = Pairs.count(predicted, true, ignore)
    above_chance = pairs.in_both - pairs.expected

    def adjusted(own: Tensor, other: Tensor) -> Tensor:
        is_trivial = (own == 0) | (other == pairs.all)
        return torch.where(is_trivial, 1.0, above_chance / torch.where(is_trivial, 1.0, own - pairs.expected))

    return adjusted(pairs.in_predicted, pairs.in_true), adjusted(pairs.in_true, pairs.in_predicted)


@dataclass(frozen=True)
class Pairs:
    """Numbers of ordered pairs of different pixels of each of B images; (B,) each."""

    all: Tensor
    in_predicted: Tensor  # both pixels in one predicted group
    in_true: Tensor  # both in one true group
    in_both: Tensor

    @staticmethod
    def count(predicted: Tensor, true: Tensor, ignore: int | None) -> Pairs:
        """Counts pairs of pixels whose true id is not `ignore`."""
        check_shapes(predicted, true)
        counts = contingency(predicted.flatten(1).long(), true.flatten(1).long(), ignore)
        a, b = counts.sum(dim=2), counts.sum(dim=1)
        n = a.sum(dim=1)
        both = counts.square().sum(dim=(1, 2)) - counts.sum(dim=(1, 2))
        return Pairs(n * (n - 1), (a * (a - 1)).sum(dim=1), (b * (b - 1)).sum(dim=1), both)

    @property
    def expected(self) -> Tensor:
        """How many pairs would be in both by chance."""
        return self.in_predicted * self.in_true / self.all.clamp_min(1)


def check_shapes(predicted: Tensor, true: Tensor) -> None:
    """Raises ValueError unless both have the same shape."""
    if predicted.shape != true.shape:
        raise ValueError(f"segmentations differ in shape: {tuple(predicted.shape)} and {tuple(true.shape)}")


def used_slots(segmentation: Tensor, num_slots: int, *, share: float = 0.01) -> Tensor:
    """Number of slots that own at least this share of the pixels of `segmentation` (B, H, W). Returns (B,)."""
    owned = torch.nn.functional.one_hot(segmentation.flatten(1), num_slots).float().mean(dim=1)
    return (owned >= share).sum(dim=1).float()


def overlap_scores(predicted: Tensor, true: Tensor) -> dict[str, Tensor]:
    """How well the true objects, ids 1 and up of `true` (B, H, W), are covered by groups of `predicted`; (B,) each.

    "miou": intersection over union of each object with the group that the best one-to-one matching gives it, 0 if none
    is left for it. "mbo": with the group that covers it best, whoever else has it. Both are means over an image's
    objects, and 1 where there is none.
    """
    shared = iou(predicted, true)[:, :, 1:]
    is_object = true_sizes(true, shared.shape[2] + 1)[:, 1:] > 0
    matched = torch.zeros_like(is_object, dtype=torch.float64)
    for b, scores in enumerate(shared):
        groups, objects = map(torch.from_numpy, best_pairs(scores.cpu().numpy()))
        matched[b, objects] = scores[groups, objects]
    best = shared.amax(dim=1)
    count = is_object.sum(dim=1)
    scores = {"miou": matched, "mbo": best}
    return {
        name: torch.where(count > 0, (values * is_object).sum(dim=1) / count.clamp_min(1), 1.0)
        for name, values in scores.items()
    }


def iou(predicted: Tensor, true: Tensor) -> Tensor:
    """Intersection over union of every predicted with every true group, (B, P, T)."""
    check_shapes(predicted, true)
    counts = contingency(predicted.flatten(1).long(), true.flatten(1).long(), None)
    union = counts.sum(dim=2, keepdim=True) + counts.sum(dim=1, keepdim=True) - counts
    return counts / union.clamp_min(1)


def true_sizes(true: Tensor, groups: int) -> Tensor:
    """Pixels of each group, (B, groups)."""
    ids = torch.arange(groups, device=true.device)
    return (true.flatten(1)[:, None] == ids[:, None]).sum(dim=2)


def contingency(predicted: Tensor, true: Tensor, ignore: int | None) -> Tensor:
    """Counts pixels (B, P, T) of each pair of groups, in float64: products of counts must stay exact."""
    B = len(predicted)
    P, T = int(predicted.max()) + 1, int(true.max()) + 1
    cells = (torch.arange(B, device=true.device)[:, None] * P + predicted) * T + true
    kept = cells if ignore is None else cells[true != ignore]
    return torch.bincount(kept.flatten(), minlength=B * P * T).reshape(B, P, T).double()
