"""MONet: sizes, recursive scopes, the two sets of masks, and a loss computed by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Literal

import pytest
import torch
from torch.distributions import Categorical, Normal, kl_divergence

from emorl.errors import UserError
from emorl.models.monet import MONet, MONetConfig
from emorl.models.parts import DecoderConfig
from emorl.nn.stick_breaking import recursive_stick_breaking, stick_breaking
from emorl.nn.unet import UNet
from emorl.probability import mask_kl, mixture_nll
from emorl.runs.presets import PRESETS
from helpers import always

F64 = torch.float64


@pytest.mark.parametrize(
    ("size", "expected"), [(32, 749_701), (64, 974_085), (96, 1_630_725), (128, 1_788_293)]
)
def test_parameter_counts_are_the_published_ones(size: int, expected: int) -> None:
    """Tetrominoes were cropped to 32 pixels; here they are padded to 40, which makes the bottleneck larger."""
    model = MONet(replace(PRESETS["monet/tetrominoes-paper"].model, image_size=size))
    assert sum(p.numel() for p in model.parameters()) == expected


@pytest.mark.parametrize("size", [35, 64, 96, 128])
@pytest.mark.parametrize("decoder", ["component", "lean"])
def test_image_sizes(size: int, decoder: Literal["component", "lean"]) -> None:
    config = MONetConfig(
        image_size=size, num_slots=2, slot_size=4, attention_channels=2, encoder_channels=2,
        decoder=DecoderConfig(decoder, channels=4),
    )  # fmt: skip
    assert MONet(config).decompose(torch.rand(1, 3, size, size)).image.shape == (1, 3, size, size)


@pytest.fixture
def model() -> MONet:
    """Small, with attention that varies over the image: an untrained network's hardly does."""
    model = MONet(PRESETS["monet/tetrominoes-tiny"].model)
    torch.nn.init.normal_(model.share.weight)
    return model


def test_scopes_shrink_and_the_last_slot_takes_the_rest(model: MONet) -> None:
    """The recursion of the paper, with numbers instead of their logarithms."""
    model.double()
    x = torch.rand(2, 3, 35, 35, dtype=F64)
    with torch.no_grad():
        masks = model.attend(x, 4).exp()
        scope = torch.ones(2, 1, 35, 35, dtype=F64)
        for k in range(3):
            alpha = model.share(model.unet(torch.cat([x, scope.log()], dim=1))).sigmoid()
            torch.testing.assert_close(masks[:, k], scope * alpha)
            assert (masks[:, k] <= scope).all()
            scope = scope * (1 - alpha)
        torch.testing.assert_close(masks[:, 3], scope)
    torch.testing.assert_close(masks.sum(dim=1), torch.ones_like(scope))


@pytest.mark.parametrize("K", [1, 2, 7])
def test_attention_looks_once_per_slot_but_the_last(model: MONet, K: int) -> None:
    passes = []
    model.unet.register_forward_hook(lambda *_: passes.append(1))
    assert model.decompose(torch.rand(2, 3, 35, 35), num_slots=K).masks.shape[1] == K
    assert len(passes) == K - 1


def test_fewer_slots_cut_the_sequence_short(model: MONet) -> None:
    """Slots are ordered: the first ones do not know how many follow."""
    x = torch.rand(2, 3, 35, 35)
    with torch.no_grad():
        two, four = model.attend(x, 2), model.attend(x, 4)
    assert torch.equal(two[:, 0], four[:, 0])
    torch.testing.assert_close(two[:, 1], four[:, 1:].logsumexp(dim=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("likelihood", ["mixture", "pixel-mixture"])
def test_loss_is_the_published_one(likelihood: str) -> None:
    """Densities of torch.distributions; a narrower one in the first slot; the noise given."""
    weights = {"background_sigma": 0.2, "foreground_sigma": 0.3, "kl_weight": 0.7, "mask_weight": 0.4}
    tiny = PRESETS["monet/tetrominoes-tiny"].model
    model = MONet(replace(tiny, likelihood=likelihood, **weights)).double()
    x, noise = torch.rand(2, 3, 35, 35, dtype=F64), torch.randn(2, 4, tiny.slot_size, dtype=F64)
    with torch.no_grad():
        outcome = model(x, noise=always(noise))
        masks = model.attend(x, 4).exp()
        mu, log_sigma = model.encoder(x, masks.log()).chunk(2, dim=-1)
        decoded = model.decode(mu + log_sigma.exp() * noise)
    density = torch.zeros((), dtype=F64)
    for k in range(4):
        log_prob = Normal(decoded.components[:, k], 0.2 if k == 0 else 0.3).log_prob(x)
        log_prob = log_prob.sum(dim=1, keepdim=True) if likelihood == "pixel-mixture" else log_prob
        density = density + masks[:, k] * log_prob.exp()
    # The package leaves the constant out.
    nll = -density.log().sum(dim=(1, 2, 3)) - 3 * 35**2 * 0.5 * math.log(2 * math.pi)
    kl = kl_divergence(Normal(mu, log_sigma.exp()), Normal(0.0, 1.0)).sum(dim=(1, 2))
    chosen, predicted = (Categorical(probs=m.squeeze(2).movedim(1, -1)) for m in (masks, decoded.masks))
    mask_kl = kl_divergence(chosen, predicted).sum(dim=(1, 2))
    torch.testing.assert_close(outcome.terms["nll"], nll)
    torch.testing.assert_close(outcome.terms["kl"], kl)
    torch.testing.assert_close(outcome.terms["mask_kl"], mask_kl)
    torch.testing.assert_close(outcome.loss, (nll + 0.7 * kl + 0.4 * mask_kl).mean())


def test_the_answer_has_the_masks_of_attention_and_rendered_slots_have_their_own(model: MONet) -> None:
    x = torch.rand(2, 3, 35, 35)
    answer = model.decompose(x)
    rendered = model.decode(answer.slots)
    torch.testing.assert_close(answer.masks, model.attend(x, 4).exp().detach())
    torch.testing.assert_close(rendered.components, answer.components)
    torch.testing.assert_close(rendered.masks.sum(dim=1), torch.ones(2, 1, 35, 35))
    assert not torch.allclose(rendered.masks, answer.masks)


def test_refusals(model: MONet) -> None:
    with pytest.raises(UserError, match="does not iterate"):
        model.decompose(torch.rand(1, 3, 35, 35), num_steps=1)
    with pytest.raises(UserError, match="foreground_sigma"):
        replace(model.config, foreground_sigma=0.0)
    with pytest.raises(UserError, match="image_size"):
        replace(model.config, image_size=15)


def test_stick_breaking_equals_its_recursion_and_its_definition() -> None:
    logits = 3 * torch.randn(2, 3, 1, 5, 5, dtype=F64)
    masks = stick_breaking(logits)
    alpha = logits.sigmoid()
    torch.testing.assert_close(masks[:, 2].exp(), (1 - alpha[:, 0]) * (1 - alpha[:, 1]) * alpha[:, 2])
    torch.testing.assert_close(masks[:, 3].exp(), (1 - alpha).prod(dim=1))
    shares = iter(logits.unbind(dim=1))
    recursive = recursive_stick_breaking(
        lambda log_scope: next(shares), torch.zeros(2, 1, 5, 5, dtype=F64), 4
    )
    torch.testing.assert_close(masks, recursive)
    assert torch.equal(stick_breaking(logits[:, :0]), torch.zeros(2, 1, 1, 5, 5, dtype=F64))


def test_sure_shares_leave_finite_masks_and_gradients() -> None:
    logits = torch.full((1, 6, 1, 2, 2), 300.0, requires_grad=True)
    masks = stick_breaking(logits)
    masks.sum().backward()
    assert masks.isfinite().all()
    assert logits.grad is not None
    assert logits.grad.isfinite().all()


def test_mask_kl_ignores_what_is_nearly_nothing() -> None:
    one = torch.tensor([1.0, 0.0]).reshape(1, 2, 1, 1, 1).log()
    other = torch.tensor([0.25, 0.75]).reshape(1, 2, 1, 1, 1).log()
    assert mask_kl(one, one).item() == 0
    rest = 1e-5 * (math.log(1e-5) - math.log(0.75))  # what counts as 1e-5
    assert mask_kl(one, other).item() == pytest.approx(math.log(4) + rest, rel=1e-6)


def test_slots_may_differ_in_the_scale_of_their_likelihood() -> None:
    x, components = torch.rand(2, 3, 4, 4), torch.rand(2, 3, 3, 4, 4)
    log_masks = torch.randn(2, 3, 1, 4, 4).log_softmax(dim=1)
    sigma = torch.full((3, 1, 1, 1), 0.2)
    torch.testing.assert_close(
        mixture_nll(x, log_masks, components, sigma), mixture_nll(x, log_masks, components, 0.2)
    )


def test_unet_norms_each_channel_of_each_image_alone() -> None:
    unet = UNet(16, 4, channels=3)
    first = unet.down[0]
    assert isinstance(first, torch.nn.Sequential)
    hidden = first[0](torch.rand(2, 4, 16, 16))
    expected = torch.nn.functional.instance_norm(hidden).relu()
    torch.testing.assert_close(first[1:](hidden), expected)


def test_unet_padding_is_cropped_away() -> None:
    """An image padded by hand goes through a network without padding, with the same result."""
    small, large = UNet(35, 4, channels=3), UNet(40, 4, channels=3)
    large.load_state_dict(small.state_dict())
    x = torch.rand(2, 4, 35, 35)
    padded = torch.nn.functional.pad(x, (0, 5, 0, 5), mode="replicate")
    torch.testing.assert_close(small(x), large(padded)[..., :35, :35])


def test_an_even_start_has_no_checkerboard() -> None:
    """Four neighbours that come from one place of the last layer are equal at first."""
    model = MONet(PRESETS["monet/tetrominoes-tiny"].model)
    image = model.decoder.render(torch.randn(1, 4, model.config.slot_size))[..., :34, :34]
    corners = image[..., ::2, ::2]
    for i, j in ((0, 1), (1, 0), (1, 1)):
        torch.testing.assert_close(image[..., i::2, j::2], corners)
