"""What the numbers of a slot stand for: their ranges over scenes, the factor each follows, and which do most."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from emorl.data.base import Array, FactorKind, SceneDataset
from emorl.errors import UserError
from emorl.evaluation.dci import kinds_of, objects_of
from emorl.evaluation.latents import ranges_of, slots_of
from emorl.explorer.board import Board
from emorl.explorer.guide import Guide, learn_guide
from emorl.explorer.turns import metric_of
from emorl.models.base import Model

SCENES = 32  # to look at: enough for ranges, and done in seconds
VALUES = 4  # places in a dimension's range at which a slot is painted to see what the dimension does
MOST_OF_A_FACTOR = 2  # sliders
LEAST_LIKENESS = 0.5  # between a dimension and a factor: below it, the dimension gets no name


@dataclass(frozen=True)
class Study:
    """What is known of the numbers of all slots of a model."""

    ranges: Tensor  # (2, D), least and greatest
    labels: tuple[str, ...]  # the factor that each dimension follows best; "" where there is none
    metric: Tensor  # (D, D), how unlike these slots a change of a slot is
    guide: Guide | None = None  # how slots change while their objects move, if they have no frame


def study(model: Model, scenes: SceneDataset) -> Study:
    """Looks at the first scenes: at objects and their factors where these are known, or else at slots alone."""
    guide = learn_guide(model, scenes)
    try:
        if not scenes.info.has_masks:
            raise UserError("No factors are known.")
        codes, factors = objects_of(model, scenes, images=SCENES)
        slots = torch.from_numpy(codes).to(model.device)
        labels = names_of(codes, factors, kinds_of(factors, scenes.info.factors))
    except UserError:
        slots = slots_of(model, scenes, images=SCENES).flatten(0, -2)
        labels = ("",) * slots.shape[1]
    return Study(ranges_of(slots[None]), labels, metric_of(slots), guide)


def names_of(codes: Array, factors: Mapping[str, Array], kinds: Mapping[str, FactorKind]) -> tuple[str, ...]:
    """The factor that each column of `codes` (N, D) follows best, "" if it follows none."""
    names = list(factors)
    scores = np.stack([likeness(codes, factors[name], kinds[name]) for name in names])  # (factors, D)
    best = scores.argmax(axis=0)
    return tuple(names[n] if scores[n, d] >= LEAST_LIKENESS else "" for d, n in enumerate(best))


def likeness(codes: Array, values: Array, kind: FactorKind) -> Array:
    """How well one factor (N,) tells each column of `codes` (N, D): correlation, or its like for groups. (D,)."""
    centred = codes - codes.mean(axis=0)
    total = np.square(centred).sum(axis=0) + 1e-12
    if kind == "continuous":
        v = values - values.mean()
        return np.asarray(np.abs(v @ centred) / np.sqrt(total * (np.square(v).sum() + 1e-12)))
    groups, members = np.unique(values, return_inverse=True)
    between = sum(
        (members == g).sum() * np.square(centred[members == g].mean(axis=0)) for g in range(len(groups))
    )
    # What groups explain of noise, on average, is no likeness.
    chance = (len(groups) - 1) / max(1, len(values) - 1)
    return np.asarray(np.sqrt(np.clip((between / total - chance) / max(1e-6, 1 - chance), 0, 1)))


@torch.no_grad()
def most_active(board: Board, k: int, ranges: Tensor) -> list[tuple[int, float]]:
    """The dimensions of slot `k`, those that change the picture most first, and by how much: activeness on this board.

    That is the variance of a pixel while a dimension goes through its range, averaged over pixels and channels.
    """
    z, D = board.slots[k], board.slots.shape[1]
    share = torch.linspace(0, 1, VALUES, device=z.device)[:, None]
    places = ranges[0] + share * (ranges[1] - ranges[0])  # (VALUES, D)
    found = torch.zeros(D)
    rest = [other for other in range(len(board.slots)) if other != k and other not in board.now.removed]
    for d in range(D):
        copies = z.expand(VALUES, 1, -1).clone()
        copies[:, 0, d] = places[:, d]
        alone = board.model.layers(copies)
        if alone is None:
            slots = board.slots.expand(VALUES, -1, -1).clone()
            slots[:, k, d] = places[:, d]
            pictures = board.model.decode(slots).image
        else:
            others = board.logits[rest].expand(VALUES, -1, -1, -1, -1)
            masks = torch.cat([alone[0], others], dim=1).softmax(dim=1)
            colours = torch.cat([alone[1], board.colours[rest].expand(VALUES, -1, -1, -1, -1)], dim=1)
            pictures = (masks * colours).sum(dim=1)
        found[d] = pictures.var(dim=0).mean()
    return [(d, float(found[d])) for d in found.argsort(descending=True).tolist()]


def varied(ranked: Sequence[tuple[int, float]], labels: Sequence[str], count: int) -> list[tuple[int, float]]:
    """The first `count` of ranked dimensions, without a third one of the same factor: colours matter, too."""
    seen: Counter[str] = Counter()
    kept = []
    for d, value in ranked:
        seen[labels[d]] += 1
        if not labels[d] or seen[labels[d]] <= MOST_OF_A_FACTOR:
            kept.append((d, value))
    return kept[:count]


@torch.no_grad()
def traversal(board: Board, k: int, d: int, ranges: Tensor, frames: int) -> Tensor:
    """Pictures (frames, 3, H, W) while dimension `d` of slot `k` goes from one end of its range to the other."""
    trial = Board(board.model, board.image, board.slots)
    trial.now = board.now
    pictures = []
    for value in torch.linspace(float(ranges[0, d]), float(ranges[1, d]), frames).tolist():
        trial.set_number(k, d, value, stroke=0)
        pictures.append(trial.picture)
    return torch.stack(pictures)
