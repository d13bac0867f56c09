"""GENESIS-V2: sizes, clustering around seeds, what is computed once, and a loss computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch.distributions import Normal, kl_divergence

from emorl.errors import UserError
from emorl.models.genesis_v2 import GenesisV2, GenesisV2Config, InstanceColouring, Kernel, pool
from emorl.models.parts import DecoderConfig
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.position import coordinate_grid
from emorl.probability import Noise, noise_per_image
from emorl.runs.presets import PRESETS
from helpers import always, present, varied

F64 = torch.float64


@pytest.mark.parametrize(
    ("size", "expected"), [(32, 2_618_574), (64, 2_729_422), (96, 3_387_342), (128, 2_840_270)]
)
def test_parameter_counts_are_the_published_ones(size: int, expected: int) -> None:
    """Tetrominoes were cropped to 32 pixels; here they are padded to 40, which makes the bottleneck larger."""
    model = GenesisV2(replace(PRESETS["genesis-v2/tetrominoes-paper"].model, image_size=size))
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("size", [35, 64, 96, 128])
@pytest.mark.parametrize("decoder", ["normed", "lean"])
def test_image_sizes(size: int, decoder: Literal["normed", "lean"]) -> None:
    config = GenesisV2Config(
        image_size=size, num_slots=2, slot_size=4, channels=8, decoder=DecoderConfig(decoder, channels=8), hidden_size=4
    )  # fmt: skip
    assert GenesisV2(config).decompose(torch.rand(1, 3, size, size)).image.shape == (1, 3, size, size)


@pytest.fixture
def model() -> GenesisV2:
    """Small, with codes that know more than positions."""
    model = GenesisV2(PRESETS["genesis-v2/tetrominoes-tiny"].model)
    torch.nn.init.constant_(model.clustering.gate, 2.0)
    return model


@pytest.fixture
def x() -> torch.Tensor:
    return torch.rand(3, 3, 35, 35)


@pytest.mark.parametrize("kernel", ["gaussian", "laplacian", "epanechnikov"])
def test_clustering_equals_the_published_algorithm(kernel: Kernel) -> None:
    """Pixel by pixel, seed by seed, image by image."""
    clustering = InstanceColouring(4, 5, kernel=kernel, num_slots=4).double()
    torch.nn.init.constant_(clustering.gate, 0.7)
    features, noise = torch.randn(2, 4, 6, 6, dtype=F64), torch.randn(2, 1, 6, 6, dtype=F64)
    with torch.no_grad():
        masks = clustering(features, 4, always(noise)).exp()
        codes = clustering.codes(features)
    sigma = {
        "gaussian": 1 / (4 * math.log(2)),
        "laplacian": 1 / (2 * math.log(2)),
        "epanechnikov": 0.5,
    }[kernel]
    for b in range(2):
        scope = torch.ones(6, 6, dtype=F64)
        for k in range(3):
            order = Normal(0.0, 1.0).cdf(noise[b, 0]) * scope
            i, j = divmod(int(order.argmax()), 6)
            distance = (codes[b] - codes[b, :, i, j][:, None, None]).norm(dim=0)
            alpha = {
                "gaussian": (-(distance**2) / sigma).exp(),
                "laplacian": (-distance / sigma).exp(),
                "epanechnikov": (1 - distance**2 / sigma).clamp_min(0),
            }[kernel].clamp(0.01, 0.99)
            torch.testing.assert_close(masks[b, k, 0], scope * alpha, rtol=1e-6, atol=1e-7)
            scope = scope * (1 - alpha)
        torch.testing.assert_close(masks[b, 3, 0], scope, rtol=1e-6, atol=1e-7)  # the last takes the rest


def test_codes_start_as_positions() -> None:
    clustering = InstanceColouring(4, 5, kernel="gaussian", num_slots=4)
    codes = clustering.codes(torch.randn(2, 4, 6, 7))
    assert codes[:, :3].abs().max() == 0
    assert torch.equal(codes[:, 3:], coordinate_grid(6, 7, like=codes).expand(2, -1, -1, -1))


def test_half_of_a_share_at_the_distance_that_gives_clusters_room() -> None:
    """The published start: codes at a distance of 1/√K have a similarity of one half."""
    for kernel in ("gaussian", "laplacian", "epanechnikov"):
        clustering = InstanceColouring(4, 5, kernel=kernel, num_slots=9)
        assert clustering.similarity(torch.tensor(1 / 9)).item() == pytest.approx(0.5, abs=1e-4)


def test_clamped_shares_still_learn() -> None:
    """Far from its seed a share is clamped; it must be able to grow."""
    clustering = InstanceColouring(4, 5, kernel="gaussian", num_slots=4)
    torch.nn.init.constant_(clustering.log_sigma, math.log(0.2))
    noise = torch.zeros(1, 1, 1, 2)
    noise[..., 0] = 1  # the left pixel is the seed
    masks = clustering(torch.randn(1, 4, 1, 2), 2, always(noise))
    assert masks[0, 0, 0, 0, 1].exp().item() == pytest.approx(0.01)
    (gradient,) = torch.autograd.grad(masks[0, 0, 0, 0, 1], clustering.log_sigma)
    assert gradient > 0


def test_seeds_are_drawn_from_what_is_left(model: GenesisV2) -> None:
    """With sharp clusters no seed falls into one that is there already."""
    torch.nn.init.constant_(model.clustering.log_sigma, math.log(0.05))
    torch.nn.init.zeros_(model.clustering.gate)
    masks = model.infer(torch.rand(8, 3, 35, 35), trace=True).steps[0].masks[:, :-1]
    assert masks.flatten(2).amax(dim=2).min() > 0.5


def test_the_noise_source_decides_about_seeds_even_at_posterior_means(
    model: GenesisV2, x: torch.Tensor
) -> None:
    def clusters(*seeds: int) -> torch.Tensor:
        outcome = model.infer(x[: len(seeds)], noise=noise_per_image(seeds, means=True))
        return present(outcome.steps[-1].attention)

    assert torch.equal(clusters(1, 2, 3), clusters(1, 2, 3))
    assert not torch.equal(clusters(1, 2, 3), clusters(4, 5, 6))
    # An image's clusters do not depend on its neighbours in the batch.
    torch.testing.assert_close(clusters(1, 2, 3)[:1], clusters(1), rtol=1e-4, atol=1e-5)


def test_heads_are_computed_once_and_slots_decoded_together(model: GenesisV2, x: torch.Tensor) -> None:
    calls = []
    assert isinstance(model.decoder, SpatialBroadcastDecoder)
    heads = (model.feature_head, model.segmentation_head, model.posterior)
    for part in (model.unet, *heads, model.decoder.rest):
        part.register_forward_hook(lambda module, *_: calls.append(module))
    model.decompose(x, num_slots=6)
    assert len(calls) == len(set(calls)) == 5


@pytest.mark.parametrize("K", [1, 2, 9])
def test_any_number_of_slots(model: GenesisV2, x: torch.Tensor, K: int) -> None:
    d = model.decompose(x, num_slots=K)
    attention = present(d.attention)
    assert d.masks.shape[1] == attention.shape[1] == K
    torch.testing.assert_close(attention.sum(dim=1), torch.ones(3, 1, 35, 35))


def test_features_are_averaged_under_their_mask() -> None:
    features, masks = torch.randn(2, 5, 4, 4), torch.zeros(2, 3, 1, 4, 4)
    masks[:, 0, :, 1, 2] = 1.0
    masks[:, 1] = 0.25
    pooled = pool(features, masks)
    torch.testing.assert_close(pooled[:, 0], features[:, :, 1, 2], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(pooled[:, 1], features.mean(dim=(2, 3)), rtol=1e-4, atol=1e-4)
    assert pooled[:, 2].abs().max() == 0  # a cluster without pixels is not a division by zero


def test_slots_are_decoded_independently_and_compete(model: GenesisV2) -> None:
    slots, order = torch.randn(2, 4, model.config.slot_size), torch.tensor([2, 0, 3, 1])
    one, other = model.decode(slots), model.decode(slots[:, order])
    torch.testing.assert_close(one.masks[:, order], other.masks, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.components[:, order], other.components, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("likelihood", ["mixture", "gaussian"])
def test_loss_is_the_published_one(likelihood: str) -> None:
    """Densities of torch.distributions: decoded masks in the likelihood, an autoregressive prior in the KL."""
    tiny = PRESETS["genesis-v2/tetrominoes-tiny"].model
    model = GenesisV2(replace(tiny, likelihood=likelihood, likelihood_sigma=0.7, scale_bias=0.0)).double()
    model.geco.beta.fill_(0.3)
    x = torch.rand(3, 3, 35, 35, dtype=F64)
    ones = Noise(torch.ones_like)  # every sample is a deviation above its mean
    with torch.no_grad():
        torch.nn.init.normal_(model.posterior.get_parameter("1.2.weight"))  # so that slots differ
        outcome = model(x, noise=ones)
        features = model.unet(x)
        clusters = model.clustering(model.segmentation_head(features), 4, ones).exp()
        features = features + present(model.position)(35, 35)
        params = model.posterior(pool(model.feature_head(features), clusters))
        mu, raw = params.chunk(2, dim=-1)
        sigma = torch.nn.functional.softplus(raw + 0.5) + 1e-8
        decoded = model.decode(mu + sigma)
        prior = model.prior(mu + sigma)
    if likelihood == "mixture":
        density = Normal(decoded.components, 0.7).log_prob(x.unsqueeze(1)).exp()
        log_density = (decoded.masks * density).sum(dim=1).log()
    else:
        log_density = Normal(decoded.image, 0.7).log_prob(x)
    # The package leaves the constant out.
    nll = -(log_density + 0.5 * math.log(2 * math.pi)).sum(dim=(1, 2, 3))
    kl = kl_divergence(Normal(mu, sigma), Normal(prior.mu, prior.sigma)).sum(dim=(1, 2))
    torch.testing.assert_close(outcome.terms["nll"], nll)
    torch.testing.assert_close(outcome.terms["kl"], kl)
    torch.testing.assert_close(outcome.loss, (nll + 0.3 * kl).mean())
    torch.testing.assert_close(outcome.steps[-1].attention, clusters)


def test_mask_kl_teaches_the_clustering_only(model: GenesisV2, x: torch.Tensor) -> None:
    assert isinstance(model.decoder, SpatialBroadcastDecoder)
    parts = [model.decoder.first.weight, model.clustering.gate]
    found = {}
    for weight in (0.0, 10.0):
        model.config = replace(model.config, mask_weight=weight)
        found[weight] = torch.autograd.grad(model(x, noise=Noise(torch.ones_like)).loss, parts)
    torch.testing.assert_close(found[10.0][0], found[0.0][0])
    assert not torch.allclose(found[10.0][1], found[0.0][1])


def test_adapt_moves_the_weight_of_the_kl(model: GenesisV2) -> None:
    model.geco.target, before = 0.0, model.geco.beta.item()
    model.adapt({"nll": torch.tensor(100.0)})
    assert model.geco.beta < before


def test_refusals(model: GenesisV2, x: torch.Tensor) -> None:
    with pytest.raises(UserError, match="does not iterate"):
        model.decompose(x, num_steps=1)
    with pytest.raises(UserError, match="multiple of 8"):
        replace(model.config, channels=12)
    with pytest.raises(UserError, match=r"decoder\.channels must be a multiple of 8"):
        varied(model.config, decoder={"layout": "normed", "channels": 12})
    with pytest.raises(UserError, match="embedding_size"):
        replace(model.config, embedding_size=1)
