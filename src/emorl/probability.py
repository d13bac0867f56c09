"""Diagonal Gaussians over slots, the two image likelihoods, and the one place where noise enters a model.

Likelihoods drop the constant ½ log 2π per pixel and channel, as the targets of the paper's GECO do.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

NoiseSource = Callable[[Tensor], Tensor]  # a tensor (B, K, D) -> standard normal noise of that shape
_noise: ContextVar[NoiseSource] = ContextVar("noise", default=torch.randn_like)
_at_mean: ContextVar[bool] = ContextVar("at_mean", default=False)


@contextmanager
def noise_from(source: NoiseSource) -> Iterator[None]:
    """Every sample drawn inside takes its noise from `source` instead of the global generator."""
    token = _noise.set(source)
    try:
        yield
    finally:
        _noise.reset(token)


@contextmanager
def posterior_means() -> Iterator[None]:
    """Inside, a posterior gives its mean instead of a sample. The draw that tells slots apart stays a draw."""
    token = _at_mean.set(True)
    try:
        yield
    finally:
        _at_mean.reset(token)


def shard_of_noise(rank: int, world_size: int) -> NoiseSource:
    """Each of several processes draws the whole batch's noise and keeps its rows, so their number changes nothing."""

    def source(like: Tensor) -> Tensor:
        whole = like.new_empty((len(like) * world_size, *like.shape[1:])).normal_()
        return whole[rank::world_size]

    return source


def noise_per_image(seeds: Sequence[int]) -> NoiseSource:
    """Each image has its own generator, so what is inferred for it does not depend on its neighbours in the batch."""
    generators = [torch.Generator().manual_seed(seed) for seed in seeds]

    def source(like: Tensor) -> Tensor:
        # Drawn on the CPU: the same numbers on every device.
        rows = [
            torch.randn(like.shape[1:], generator=generator, dtype=like.dtype) for generator in generators
        ]
        return torch.stack(rows).to(like.device)

    return source


def full(t: Tensor) -> Tensor:
    """Returns `t` in 32 bits if it has fewer: likelihoods and divergences are sums too long for bf16."""
    return t.float() if t.dtype.itemsize < 4 else t


@dataclass(frozen=True)
class Gaussian:
    """A diagonal Gaussian over (B, K, D)."""

    mu: Tensor
    sigma: Tensor

    def __post_init__(self) -> None:
        for name in ("mu", "sigma"):
            object.__setattr__(self, name, full(getattr(self, name)))

    @staticmethod
    def from_params(lam: Tensor) -> Gaussian:
        """Reads λ (..., 2D): mean, then an unconstrained scale whose softplus is the variance."""
        mu, raw = full(lam).chunk(2, dim=-1)
        return Gaussian(mu, (F.softplus(raw) + 1e-5).sqrt())  # deviation 9

    @staticmethod
    def standard(like: Tensor) -> Gaussian:
        return Gaussian(torch.zeros_like(like), torch.ones_like(like))

    def rsample(self, *, always: bool = False) -> Tensor:
        """A sample; inside `posterior_means` the mean, unless it is `always` to be a sample."""
        if _at_mean.get() and not always:
            return self.mu
        return self.mu + self.sigma * _noise.get()(self.mu)

    def kl(self, other: Gaussian) -> Tensor:
        """D_KL(self || other), summed over slots and dimensions. Returns (B,)."""
        log_ratio = self.sigma.log() - other.sigma.log()
        shift = (self.mu - other.mu) / other.sigma
        # expm1 keeps precision where the two scales agree, which is where training ends up.
        return (0.5 * (torch.expm1(2 * log_ratio) + shift.square()) - log_ratio).sum(dim=(-2, -1))


def gaussian_nll(x: Tensor, log_masks: Tensor, components: Tensor, sigma: float) -> Tensor:
    """-log N(x; Σ_k π_k y_k, σ²): one Gaussian around the composed image. Returns (B,)."""
    image = (log_masks.exp() * components).sum(dim=1)
    return ((x - image).square() / (2 * sigma**2) + math.log(sigma)).sum(dim=(1, 2, 3))


def mixture_nll(x: Tensor, log_masks: Tensor, components: Tensor, sigma: float | Tensor) -> Tensor:
    """-log Σ_k π_k N(x; y_k, σ²), channel by channel: each slot explains pixels on its own. Returns (B,).

    σ may differ from slot to slot, (K, 1, 1, 1).
    """
    log_density = (x.unsqueeze(1) - components).square() / (-2 * sigma**2)
    if isinstance(sigma, Tensor):
        log_density, sigma = log_density - sigma.log(), 1.0
    return (math.log(sigma) - (log_masks + log_density).logsumexp(dim=1)).sum(dim=(1, 2, 3))


def pixel_mixture_nll(x: Tensor, log_masks: Tensor, components: Tensor, sigma: float | Tensor) -> Tensor:
    """-log Σ_k π_k Π_c N(x_c; y_kc, σ²), pixel by pixel: one slot explains all channels of a pixel. Returns (B,).

    Channel by channel, a black and a white slot can share every pixel of a saturated colour; not here.
    """
    log_sigma = sigma.log() if isinstance(sigma, Tensor) else math.log(sigma)
    log_density = (x.unsqueeze(1) - components).square() / (-2 * sigma**2) - log_sigma
    return -(log_masks + log_density.sum(dim=2, keepdim=True)).logsumexp(dim=1).sum(dim=(1, 2, 3))


def mask_kl(log_masks: Tensor, log_others: Tensor, *, least: float = 1e-5) -> Tensor:
    """D_KL between the slots that two sets of masks choose for a pixel, summed over pixels. Returns (B,).

    Masks below `least` count as `least`: where both are nearly nothing, their ratio does not matter.
    """
    log_p, log_q = (full(t).clamp_min(math.log(least)) for t in (log_masks, log_others))
    return (log_p.exp() * (log_p - log_q)).sum(dim=(1, 2, 3, 4))
