"""Densities against torch.distributions."""

from __future__ import annotations

import math

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from emorl.probability import Gaussian, gaussian_nll, mixture_nll, noise_from, noise_per_image, shard_of_noise

F64 = torch.float64


def pair() -> tuple[Gaussian, Gaussian]:
    lam = torch.randn(2, 5, 3, 8, dtype=F64)
    return Gaussian.from_params(lam[0]), Gaussian.from_params(lam[1])


def test_kl_equals_torch_distributions() -> None:
    q, p = pair()
    expected = kl_divergence(Normal(q.mu, q.sigma), Normal(p.mu, p.sigma)).sum(dim=(1, 2))
    torch.testing.assert_close(q.kl(p), expected)
    torch.testing.assert_close(q.kl(q), torch.zeros(5, dtype=F64))


def test_parameters_are_mean_and_softplus_variance() -> None:
    q = Gaussian.from_params(torch.tensor([[[3.0, 0.0]]], dtype=F64))
    assert q.mu.item() == 3
    assert q.sigma.item() ** 2 == pytest.approx(math.log(2) + 1e-5)


@pytest.mark.parametrize("raw", [-1e4, -80.0, 80.0, 1e4])
def test_extreme_scales_stay_finite(raw: float) -> None:
    lam = torch.full((1, 1, 2), raw, requires_grad=True)
    q = Gaussian.from_params(lam)
    kl = q.kl(Gaussian.standard(q.mu)).sum()
    (gradient,) = torch.autograd.grad(kl, lam)
    assert kl.isfinite()
    assert gradient.isfinite().all()


def scene() -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    x = torch.rand(2, 3, 6, 6, dtype=F64)
    log_masks = torch.randn(2, 4, 1, 6, 6, dtype=F64).log_softmax(dim=1)
    return x, log_masks, torch.rand(2, 4, 3, 6, 6, dtype=F64)


def test_gaussian_likelihood_equals_torch_distributions() -> None:
    x, log_masks, components = scene()
    expected = -Normal((log_masks.exp() * components).sum(1), 0.3).log_prob(x).sum((1, 2, 3))
    constant = 3 * 36 * 0.5 * math.log(2 * math.pi)
    torch.testing.assert_close(gaussian_nll(x, log_masks, components, 0.3), expected - constant)


def test_mixture_likelihood_equals_torch_distributions() -> None:
    x, log_masks, components = scene()
    weights = torch.distributions.Categorical(logits=log_masks.expand_as(components).movedim(1, -1))
    mixture = torch.distributions.MixtureSameFamily(weights, Normal(components.movedim(1, -1), 0.1))
    constant = 3 * 36 * 0.5 * math.log(2 * math.pi)
    expected = -mixture.log_prob(x).sum((1, 2, 3)) - constant
    torch.testing.assert_close(mixture_nll(x, log_masks, components, 0.1), expected)


def test_with_one_hot_masks_both_likelihoods_agree() -> None:
    x, _, components = scene()
    owner = torch.randint(4, (2, 1, 1, 6, 6))
    logits = torch.full((2, 4, 1, 6, 6), -1e3, dtype=F64).scatter(1, owner, 0.0)
    log_masks = logits.log_softmax(dim=1)
    one, other = gaussian_nll(x, log_masks, components, 0.2), mixture_nll(x, log_masks, components, 0.2)
    torch.testing.assert_close(one, other)


@pytest.mark.parametrize("nll", [gaussian_nll, mixture_nll])
def test_likelihoods_survive_saturated_masks(nll: object) -> None:
    x, _, components = scene()
    logits = torch.zeros(2, 4, 1, 6, 6, dtype=F64)
    logits[:, 0] = 1e4
    logits.requires_grad_()
    value = nll(x, logits.log_softmax(dim=1), components, 0.1).sum()
    (gradient,) = torch.autograd.grad(value, logits)
    assert value.isfinite()
    assert gradient.isfinite().all()


@pytest.mark.parametrize("nll", [gaussian_nll, mixture_nll])
def test_likelihood_gradients(nll: object) -> None:
    x, log_masks, components = scene()
    log_masks, components = log_masks[:1, :, :, :2, :2], components[:1, :, :, :2, :2]
    inputs = (log_masks.requires_grad_(), components.requires_grad_())
    assert torch.autograd.gradcheck(lambda m, c: nll(x[:1, :, :2, :2], m, c, 0.3), inputs)


def test_ranks_share_the_noise_of_one_batch() -> None:
    q = Gaussian(torch.zeros(6, 2, 3), torch.ones(6, 2, 3))
    torch.manual_seed(1)
    whole = q.rsample()
    for rank in (0, 1):
        torch.manual_seed(1)
        with noise_from(shard_of_noise(rank, 2)):
            part = Gaussian(q.mu[:3], q.sigma[:3]).rsample()
        assert torch.equal(part, whole[rank::2])


def test_noise_per_image_depends_on_its_seed_alone() -> None:
    q = Gaussian(torch.zeros(3, 2, 4), torch.ones(3, 2, 4))
    with noise_from(noise_per_image([5, 6, 7])):
        together = q.rsample(), q.rsample()
    with noise_from(noise_per_image([6])):
        alone = Gaussian(q.mu[:1], q.sigma[:1]).rsample(), Gaussian(q.mu[:1], q.sigma[:1]).rsample()
    for one, other in zip(alone, together, strict=True):
        assert torch.equal(one[0], other[1])
    assert not torch.equal(together[0], q.rsample())
