"""Diagonal Gaussians over slots, the likelihoods of images, and the noise that a model's samples are made of.

Likelihoods drop the constant ½ log 2π per pixel and channel, as the targets of the paper's GECO do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Noise:
    """Where a pass of a model takes its random numbers from; by default PyTorch's global generator."""

    normal: Callable[[Tensor], Tensor] = torch.randn_like  # a tensor -> standard normal numbers of its shape
    means: bool = False  # take the posterior that is the answer at its mean instead of sampling it

    def sample(self, q: Gaussian) -> Tensor:
        """Returns a sample of a distribution that inference goes on from.

        Never its mean: slots that start alike would stay alike, and layers that have learned from samples are lost on
        the mean of a wide posterior.
        """
        return q.mu + q.sigma * self.normal(q.mu)

    def answer(self, q: Gaussian) -> Tensor:
        """Returns a sample of the posterior that inference ends with, or its mean if `means` is set."""
        return q.mu if self.means else self.sample(q)


def scene_noise(seed: int, scenes: Sequence[int], *, means: bool = False) -> Noise:
    """Returns noise that depends on the seed and the number of a scene, not on the other scenes of its batch.

    `scenes` are the numbers of the scenes in the batch, in its order.
    """
    return noise_per_image(scene_seeds(seed, scenes), means=means)


def scene_seeds(seed: int, scenes: Sequence[int]) -> list[int]:
    """Returns one seed for each scene, different for every pair of `seed` and scene."""
    return [seed * 1_000_003 + scene for scene in scenes]


def noise_per_image(seeds: Sequence[int], *, means: bool = False) -> Noise:
    """Returns noise that each image of a batch draws from a generator of its own."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def normal(like: Tensor) -> Tensor:
        # Drawn on the CPU: the same numbers on every device.
        rows = [torch.randn(like.shape[1:], generator=one, dtype=like.dtype) for one in generators]
        return torch.stack(rows).to(like.device)

    return Noise(normal, means)


def process_noise(rank: int, world_size: int) -> Noise:
    """Returns noise for one of several processes that share a batch: each draws all of it and keeps its rows.

    So the number of processes does not change what is computed.
    """

    def normal(like: Tensor) -> Tensor:
        whole = like.new_empty((len(like) * world_size, *like.shape[1:])).normal_()
        return whole[rank::world_size]

    return Noise(normal)


def as_float32(t: Tensor) -> Tensor:
    """Returns `t` in 32 bits if it has fewer: likelihoods and divergences are sums too long for bf16."""
    return t.float() if t.dtype.itemsize < 4 else t


@dataclass(frozen=True)
class Gaussian:
    """A diagonal Gaussian over (B, K, D)."""

    mu: Tensor
    sigma: Tensor

    def __post_init__(self) -> None:
        for name in ("mu", "sigma"):
            object.__setattr__(self, name, as_float32(getattr(self, name)))

    @staticmethod
    def from_params(lam: Tensor) -> Gaussian:
        """Reads λ (..., 2D): mean, then an unconstrained scale whose softplus is the variance."""
        mu, raw = as_float32(lam).chunk(2, dim=-1)
        return Gaussian(mu, (F.softplus(raw) + 1e-5).sqrt())  # Difference 9

    @staticmethod
    def standard(like: Tensor) -> Gaussian:
        """N(0, 1) in every dimension, in the shape of `like`."""
        return Gaussian(torch.zeros_like(like), torch.ones_like(like))

    def kl(self, other: Gaussian) -> Tensor:
        """D_KL(self || other), summed over slots and dimensions. Returns (B,)."""
        log_ratio = self.sigma.log() - other.sigma.log()
        shift = (self.mu - other.mu) / other.sigma
        # expm1 keeps precision where the two scales agree, which is where training ends up.
        return (0.5 * (torch.expm1(2 * log_ratio) + shift.square()) - log_ratio).sum(dim=(-2, -1))


def gaussian_nll(
    x: Tensor, log_masks: Tensor, components: Tensor, sigma: float | Tensor, weights: Tensor | None = None
) -> Tensor:
    """-log N(x; Σ_k π_k y_k, σ²): one Gaussian around the composed image. Returns (B,).

    `weights` (H, W), or (B, 1, H, W), say how often each pixel counts, in this function and those that follow.
    """
    image = (log_masks.exp() * components).sum(dim=1)
    return total((x - image).square() / (2 * sigma**2) + log_of(sigma), weights)


def mixture_nll(
    x: Tensor, log_masks: Tensor, components: Tensor, sigma: float | Tensor, weights: Tensor | None = None
) -> Tensor:
    """-log Σ_k π_k N(x; y_k, σ²), channel by channel: each slot explains pixels on its own. Returns (B,).

    σ may differ from slot to slot, (K, 1, 1, 1), here and in the next function.
    """
    log_density = (x.unsqueeze(1) - components).square() / (-2 * sigma**2)
    if isinstance(sigma, Tensor):
        log_density, sigma = log_density - sigma.log(), 1.0
    return total(math.log(sigma) - (log_masks + log_density).logsumexp(dim=1), weights)


def pixel_mixture_nll(
    x: Tensor, log_masks: Tensor, components: Tensor, sigma: float | Tensor, weights: Tensor | None = None
) -> Tensor:
    """-log Σ_k π_k Π_c N(x_c; y_kc, σ²), pixel by pixel: one slot explains all channels of a pixel. Returns (B,).

    Channel by channel, a black and a white slot can share every pixel of a saturated colour; not here.
    """
    log_density = (x.unsqueeze(1) - components).square() / (-2 * sigma**2) - log_of(sigma)
    return total(-(log_masks + log_density.sum(dim=2, keepdim=True)).logsumexp(dim=1), weights)


LIKELIHOODS = {"gaussian": gaussian_nll, "mixture": mixture_nll, "pixel-mixture": pixel_mixture_nll}


def log_of(sigma: float | Tensor) -> float | Tensor:
    """Returns the natural logarithm of a number or a tensor."""
    return sigma.log() if isinstance(sigma, Tensor) else math.log(sigma)


def total(values: Tensor, weights: Tensor | None) -> Tensor:
    """Sums `values` (B, C, H, W) over all but images, each pixel as often as `weights` say. Returns (B,)."""
    return (values if weights is None else values * weights).sum(dim=(1, 2, 3))


def mask_kl(
    log_masks: Tensor, log_others: Tensor, weights: Tensor | None = None, *, least: float = 1e-5
) -> Tensor:
    """D_KL between the slots that two sets of masks choose for a pixel, summed over pixels. Returns (B,).

    Masks below `least` count as `least`: where both are nearly
    nothing, their ratio does not matter.
    """
    log_p, log_q = (as_float32(t).clamp_min(math.log(least)) for t in (log_masks, log_others))
    return total((log_p.exp() * (log_p - log_q)).sum(dim=1), weights)
