"""Layers: shapes, symmetries, and equality with the plain way of computing the same."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from emorl.nn.attention import SetAttention
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.decoder_layouts import LAYOUTS
from emorl.nn.encoder import ImageEncoder
from emorl.nn.gradient import value_and_gradient
from emorl.nn.mlp import mlp
from emorl.nn.position import position_features
from emorl.nn.recurrent import DualGRU

F64 = torch.float64


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("frequencies", [0, 3])
def test_folded_first_convolution_equals_the_plain_one(layout: str, frequencies: int) -> None:
    decoder = SpatialBroadcastDecoder(layout, image_size=32, slot_size=6, frequencies=frequencies).double()
    z = torch.randn(10, 6, dtype=F64, requires_grad=True)
    tiled = z[:, :, None, None].expand(-1, -1, decoder.grid, decoder.grid)
    tiled = nn.functional.pad(
        tiled, (0, 0, 0, 0, 0, decoder.first.in_channels - 6)
    )  # where coordinates stand
    plain = decoder.first(tiled + decoder.position(decoder.grid, decoder.grid))
    folded = decoder.first_folded(z)
    torch.testing.assert_close(folded, plain, rtol=1e-12, atol=1e-12)
    weights = torch.randn_like(plain)
    inputs = [z, *decoder.first.parameters(), *decoder.position.parameters()]
    ours = torch.autograd.grad((folded * weights).sum(), inputs)
    expected = torch.autograd.grad((plain * weights).sum(), inputs)
    for one, other in zip(ours, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize(("layout", "size"), [("broadcast", 64), ("broadcast", 35), ("small", 35), ("deconv", 96),
                                              ("deconv", 128), ("lean", 35), ("lean", 64), ("lean", 3),
                                              ("leaner", 35), ("leaner", 64)])  # fmt: skip
def test_decoders_reach_the_image_size(layout: str, size: int) -> None:
    decoder = SpatialBroadcastDecoder(layout, image_size=size, slot_size=4, channels=8)
    log_masks, components = decoder(torch.randn(2, 3, 4))
    assert log_masks.shape == (2, 3, 1, size, size)
    assert components.shape == (2, 3, 3, size, size)
    torch.testing.assert_close(log_masks.exp().sum(1), torch.ones(2, 1, size, size))
    assert components.min() >= 0
    assert components.max() <= 1


def test_decoder_stays_channels_last() -> None:
    """A hidden copy per convolution would cost a third of the speed."""
    decoder = SpatialBroadcastDecoder("lean", image_size=35, slot_size=8)
    layouts = []
    for layer in decoder.rest:
        layer.register_forward_hook(
            lambda module, args, out: layouts.append(args[0].is_contiguous(memory_format=torch.channels_last))
        )
    decoder(torch.randn(2, 3, 8))
    assert all(layouts)


def test_attention_slots_compete_and_average() -> None:
    attention = SetAttention(5, 4)
    tokens, z = torch.randn(2, 7, 5), torch.randn(2, 3, 4)
    theta, alpha = attention(*attention.keys_and_values(tokens), z)
    assert theta.shape == (2, 3, 4)
    torch.testing.assert_close(alpha.sum(dim=1), torch.ones(2, 7))
    order = torch.tensor([2, 0, 1])
    permuted, _ = attention(*attention.keys_and_values(tokens), z[:, order])
    torch.testing.assert_close(permuted, theta[:, order])
    constant, _ = attention(*attention.keys_and_values(tokens[:, :1].expand(-1, 7, -1)), z)
    torch.testing.assert_close(constant, attention.v(tokens[:, :1]).expand(-1, 3, -1))  # a mean of equals


def test_dual_gru_equals_two_cells() -> None:
    dual = DualGRU(6)
    cells = [nn.GRUCell(6, 6) for _ in range(2)]
    for j, cell in enumerate(cells):
        with torch.no_grad():
            cell.weight_ih.copy_(dual.weight_input[j])
            cell.weight_hh.copy_(dual.weight_state[j])
            cell.bias_ih.copy_(dual.bias_input[j])
            cell.bias_hh.copy_(dual.bias_state[j])
    theta, lam = torch.randn(3, 4, 6), torch.randn(3, 4, 12)
    halves = [
        cell(theta.flatten(0, 1), half.flatten(0, 1))
        for cell, half in zip(cells, lam.chunk(2, -1), strict=True)
    ]
    torch.testing.assert_close(dual(theta, lam), torch.cat(halves, -1).reshape(3, 4, 12))
    assert sum(p.numel() for p in DualGRU(64).parameters()) == 49_920


@pytest.mark.parametrize(("size", "stride"), [(35, 1), (35, 2), (64, 2), (7, 3)])
def test_encoder_grid(size: int, stride: int) -> None:
    encoder = ImageEncoder(8, stride=stride)
    tokens = encoder(torch.rand(2, 3, size, size))
    assert tokens.shape == (2, encoder.grid(size) ** 2, 8)
    assert encoder.grid(size) == -(-size // stride)


@pytest.mark.parametrize(("size", "side"), [(35, 9), (64, 16), (96, 24), (7, 2)])
def test_a_pyramid_has_a_sixteenth_of_the_tokens(size: int, side: int) -> None:
    encoder = ImageEncoder(8, layout="pyramid", frequencies=2)
    x = torch.rand(2, 3, size, size)
    assert encoder.grid(size) == side
    assert encoder.features(x).shape == (2, 8, side, side)
    torch.testing.assert_close(encoder(x), encoder.tokens(encoder.features(x)))
    assert encoder(x).shape == (2, side**2, 8)


def test_features_do_not_know_where_they_are_and_tokens_do() -> None:
    encoder = ImageEncoder(8)
    flat = torch.full((1, 3, 20, 20), 0.7)
    features = encoder.features(flat)
    middle = features[..., 8:12, 8:12]  # where no border is seen
    torch.testing.assert_close(middle, middle[..., :1, :1].expand_as(middle))
    tokens = encoder.tokens(features).unflatten(1, (20, 20))
    assert not torch.allclose(tokens[0, 8, 8], tokens[0, 11, 11])


def test_position_features_know_the_axes() -> None:
    features = position_features(3, 5, 2, like=torch.zeros(()))
    assert features.shape == (3, 5, 4 + 8)
    down, up, right, left = features[..., :4].unbind(-1)
    assert down[:, 0].tolist() == [0, 0.5, 1]
    assert right[0].tolist() == [0, 0.25, 0.5, 0.75, 1]
    torch.testing.assert_close(up, 1 - down)
    torch.testing.assert_close(left, 1 - right)
    assert (features[..., 4:] != features[:1, :, 4:]).any()


def test_mlp_has_no_activation_at_the_end() -> None:
    assert [type(layer) for layer in mlp(2, 3, 4, activation=nn.ELU)] == [nn.Linear, nn.ELU, nn.Linear]


@pytest.mark.parametrize("at_once", [None, 1, 3])
def test_value_and_gradient_is_plain_autograd(at_once: int | None) -> None:
    scale = torch.arange(1.0, 5.0, dtype=F64)
    weight = torch.randn(3, 3, dtype=F64, requires_grad=True)
    z = torch.randn(4, 3, dtype=F64, requires_grad=True)

    def f(z: torch.Tensor, images: slice = slice(None)) -> tuple[torch.Tensor, ...]:
        hidden = (z @ weight).tanh()
        return hidden.square().sum(dim=1) * scale[images], hidden

    total, values, hidden = value_and_gradient(f, z, [weight], images_at_once=at_once)
    ours = torch.autograd.grad(3 * total.square(), [z, weight], retain_graph=True)
    again = torch.autograd.grad(total, z)  # as often as wanted
    plain = f(z)[0].sum()
    expected = torch.autograd.grad(3 * plain.square(), [z, weight])
    torch.testing.assert_close(total, plain)
    torch.testing.assert_close(ours, expected)
    torch.testing.assert_close(again[0] * 6 * plain, expected[0])
    assert not values.requires_grad
    assert not hidden.requires_grad


@pytest.mark.parametrize("at_once", [None, 3])
def test_a_gradient_that_is_not_needed_is_not_computed(at_once: int | None) -> None:
    z = torch.randn(4, 3, dtype=F64, requires_grad=True)
    grad_modes = []

    def f(z: torch.Tensor, images: slice) -> tuple[torch.Tensor, ...]:
        grad_modes.append(torch.is_grad_enabled())
        return z.square().sum(dim=1), 2 * z

    total, values, doubled = value_and_gradient(f, z, needed=False, images_at_once=at_once)
    assert grad_modes == [False] * (1 if at_once is None else 2)
    torch.testing.assert_close(total, z.square().sum().detach())
    torch.testing.assert_close(values, z.square().sum(dim=1).detach())
    torch.testing.assert_close(doubled, 2 * z.detach())
    assert not total.requires_grad


def test_frozen_parameters_get_no_gradient() -> None:
    frozen, trained = torch.randn(3, dtype=F64), torch.randn(3, dtype=F64, requires_grad=True)
    z = torch.randn(2, 3, dtype=F64, requires_grad=True)
    total, _ = value_and_gradient(lambda z, _: ((z * frozen * trained).sum(dim=1),), z, [frozen, trained])
    total.backward()
    torch.testing.assert_close(trained.grad, (z * frozen).sum(dim=0).detach())
    assert frozen.grad is None


def test_large_layers_are_computed_for_a_few_images_at_a_time() -> None:
    large = SpatialBroadcastDecoder("broadcast", image_size=96, slot_size=4)
    small = SpatialBroadcastDecoder("small", image_size=35, slot_size=4)
    assert large.images_at_once(torch.zeros(5, 7, 4)) == 1  # 20 MB a layer
    assert small.images_at_once(torch.zeros(50, 4, 4)) == 38
    assert large.images_at_once(torch.zeros(5, 1000, 4)) == 1
    assert large.images_at_once(torch.zeros(5, 7, 4, device="meta")) is None
