"""What slots can be charged for beside what they show: being used, and their areas and colours.

Masks are (B, K, 1, H, W), and `weights`, (H, W) or (B, 1, H, W), say how often each pixel counts; None: once.
"""

from __future__ import annotations

import torch
from torch import Tensor


def slots_in_use(masks: Tensor, weights: Tensor | None = None, *, least: float = 0.01) -> Tensor:
    """How many of the slots with `masks` (B, K, 1, H, W) are used. Returns (B,).

    Smooth: a slot counts 0 if it covers nothing, 0.63 if it covers `least` of the image, and 1 if it covers much more.
    """
    return -torch.expm1(-areas(masks, weights) / least).sum(dim=-1)


def excess_area(masks: Tensor, weights: Tensor | None = None, *, free: float) -> Tensor:
    """Σ_k log(max(1, area_k / free)) of `masks` (B, K, 1, H, W), areas as shares of the image. Returns (B,).

    Concave in what is beyond `free`: two slots that share pixels cost more than one that has them all.
    """
    return (areas(masks, weights) / free).clamp_min(1).log().sum(dim=-1)


def outside_largest(masks: Tensor, weights: Tensor | None = None) -> Tensor:
    """Which share of the image the slots other than the largest cover, of `masks` (B, K, 1, H, W). Returns (B,)."""
    shares = areas(masks, weights)
    return shares.sum(dim=-1) - shares.amax(dim=-1)


def areas(masks: Tensor, weights: Tensor | None) -> Tensor:
    """Which share of the image each of `masks` (B, K, 1, H, W) covers. Returns (B, K)."""
    if weights is None:
        return masks.mean(dim=(-3, -2, -1))
    weights = of_slots(weights)
    return ((masks * weights).sum(dim=(-2, -1)) / weights.sum(dim=(-2, -1))).squeeze(-1)


def of_slots(weights: Tensor) -> Tensor:
    """Weights of pixels with a dimension for slots, if they have one for images: (H, W), or (B, 1, 1, H, W)."""
    return weights if weights.ndim == 2 else weights.unsqueeze(1)


def colour_spread(masks: Tensor, components: Tensor, weights: Tensor | None = None) -> Tensor:
    """Σ_k Σ_pixels π_k |y_k - ȳ_k|², where ȳ_k is the mean colour of what slot k shows. Returns (B,).

    `masks` are (B, K, 1, H, W) and `components` (B, K, 3, H, W).
    """
    shown = masks if weights is None else masks * of_slots(weights)
    area = shown.sum(dim=(-2, -1), keepdim=True).clamp_min(1e-6)
    mean = (shown * components).sum(dim=(-2, -1), keepdim=True) / area
    return (shown * (components - mean).square()).sum(dim=(1, 2, 3, 4))
