"""Slot Attention and Slot MLP: sizes, attention step by step, order and symmetry."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

import pytest
import torch

from emorl.errors import UserError
from emorl.models import build
from emorl.models.base import Model
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.models.prices import slots_in_use
from emorl.models.slot_attention import SlotAttention, SlotAttentionConfig
from emorl.models.slot_mlp import SlotMLP, SlotMLPConfig
from emorl.probability import pixel_mixture_nll, scene_noise
from emorl.runs.presets import PRESETS
from emorl.schedules import Schedule
from helpers import always


def parameters(name: str) -> int:
    return sum(p.numel() for p in build(PRESETS[name].model).parameters())


def test_parameter_counts_are_the_published_ones() -> None:
    assert sum(p.numel() for p in SlotAttention(SlotAttentionConfig()).parameters()) == 890_308
    for name in ("tetrominoes", "multi-dsprites"):
        assert parameters(f"slot-attention/{name}-paper") == 235_812


@pytest.mark.parametrize("size", [35, 64, 96, 128])
@pytest.mark.parametrize("kind", [(SlotAttention, SlotAttentionConfig), (SlotMLP, SlotMLPConfig)])
def test_image_sizes(size: int, kind: tuple[type[Model], type[Any]]) -> None:
    model_type, config_type = kind
    decoder: Literal["deconv", "padded"] = "deconv" if size % 16 == 0 else "padded"
    config = config_type(
        image_size=size,
        num_slots=2,
        slot_size=4,
        encoder=EncoderConfig(channels=4),
        decoder=DecoderConfig(decoder, channels=4),
    )
    assert model_type(config).decompose(torch.rand(1, 3, size, size)).image.shape == (1, 3, size, size)


@pytest.fixture
def model() -> SlotAttention:
    return SlotAttention(PRESETS["slot-attention/tetrominoes-tiny"].model)


def test_iterations_equal_the_published_formulas(model: SlotAttention) -> None:
    """One image, two iterations, written out with loops over tokens and slots."""
    x, noise = torch.rand(1, 3, 35, 35), torch.randn(1, 4, 8)
    with torch.no_grad():
        found = model.infer(x, num_steps=2, noise=always(noise)).steps[-1].slots
        a = model.attention
        tokens = a.norm_inputs(model.encoder(x))[0]
        slots = model.mu + model.log_sigma.exp() * noise[0]
        for _ in range(2):
            q = a.q(a.norm_z(slots))
            shares = torch.stack([(q @ a.k(token) / 8**0.5).softmax(dim=0) for token in tokens])  # (N, K)
            rows = []
            for k in range(4):
                weight = (shares[:, k] + 1e-8) / (shares[:, k] + 1e-8).sum()
                rows.append(model.gru((weight[:, None] * a.v(tokens)).sum(dim=0)[None], slots[k : k + 1])[0])
            slots = torch.stack(rows)
            slots = slots + model.mlp(model.norm(slots))
    torch.testing.assert_close(found[0], slots, rtol=1e-4, atol=1e-5)


def test_slots_are_interchangeable(model: SlotAttention) -> None:
    x, noise, order = torch.rand(2, 3, 35, 35), torch.randn(2, 4, 8), torch.tensor([2, 0, 3, 1])
    one, other = (model.infer(x, noise=always(n)).steps[-1] for n in (noise, noise[:, order]))
    torch.testing.assert_close(one.slots[:, order], other.slots, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(one.masks[:, order], other.masks, rtol=1e-4, atol=1e-5)


def test_trace_decodes_every_iteration(model: SlotAttention) -> None:
    x = torch.rand(2, 3, 35, 35)
    steps = model.infer(x, num_steps=3, trace=True).steps
    assert len(steps) == 3
    assert all(step.attention is not None and step.attention.shape == (2, 4, 1, 18, 18) for step in steps)
    assert len(model.infer(x, num_steps=3).steps) == 1


def test_loss_is_the_squared_error_on_the_published_scale(model: SlotAttention) -> None:
    x = torch.rand(2, 3, 35, 35)
    noise = torch.randn(2, 4, 8)
    with torch.no_grad():
        outcome = model(x, noise=always(noise))
        log_masks, colours = model.decoder.unbounded(outcome.steps[-1].slots)
    expected = ((log_masks.exp() * colours).sum(dim=1) - (2 * x - 1)).square().mean()
    torch.testing.assert_close(outcome.loss, expected)
    assert outcome.terms["error"].mean() == pytest.approx(float(expected), rel=1e-5)


def test_slot_mlp_has_an_order_and_a_fixed_number_of_slots() -> None:
    model = build(PRESETS["slot-mlp/tetrominoes-tiny"].model)
    x = torch.rand(2, 3, 35, 35)
    assert torch.equal(model.decompose(x).slots, model.decompose(x).slots)  # nothing is random
    assert model.decompose(x, num_slots=4).masks.shape[1] == 4
    with pytest.raises(UserError, match="4 slots it was trained with"):
        model.decompose(x, num_slots=5)
    with pytest.raises(UserError, match="does not iterate"):
        model.decompose(x, num_steps=1)
    with pytest.raises(UserError, match="hidden_size"):
        replace(model.config, hidden_size=0)


def test_a_scaled_start_tells_tokens_what_is_there() -> None:
    """With Keras's weights features nearly vanish, and tokens are positions: slots would part the image by place."""
    x = torch.rand(2, 3, 64, 64)

    def strength(initialisation: str) -> float:
        """How much features differ over an image, against positions."""
        torch.manual_seed(0)
        preset = PRESETS["slot-attention/multi-dsprites"].model
        encoder = SlotAttention(replace(preset, initialisation=initialisation)).encoder
        with torch.no_grad():
            features = encoder.convolutions(2 * x - 1)
            return float(features.std(dim=(2, 3)).mean() / encoder.position(32, 32).std(dim=(2, 3)).mean())

    assert strength("keras") < 0.2
    assert strength("scaled") > 1


def test_what_is_minimised_can_be_a_mixture_with_a_price_for_used_slots() -> None:
    common: dict[str, Any] = {
        "image_size": 16, "num_slots": 3, "slot_size": 4, "encoder": EncoderConfig(channels=4),
        "decoder": DecoderConfig("pixels", channels=4),
    }  # fmt: skip
    x = torch.rand(2, 3, 16, 16, generator=torch.Generator().manual_seed(1))
    costs, weights = [], None
    for changes in (
        {"objective": "error"},
        {"objective": "pixel-mixture", "likelihood_sigma": 0.1},
        {"objective": "pixel-mixture", "likelihood_sigma": 0.1, "presence": Schedule.parse(7)},
    ):
        model = SlotAttention(SlotAttentionConfig(**common, **changes))
        weights = weights or model.state_dict()
        model.load_state_dict(weights, strict=False)
        outcome = model.infer(x, noise=scene_noise(0, range(2)))
        answer = outcome.steps[-1]
        costs.append(float(outcome.loss))
    torch.testing.assert_close(costs[0], float(outcome.terms["error"].mean()))
    # The scale is that from -1 to 1, where a deviation is twice as large.
    with torch.no_grad():
        nll = pixel_mixture_nll(2 * x - 1, *model.decoder.unbounded(answer.slots), 0.2)
    torch.testing.assert_close(costs[1], float(nll.mean()) / x[0].numel())
    used = float(slots_in_use(answer.masks).mean())
    torch.testing.assert_close(costs[2] - costs[1], 7 * used / x[0].numel(), rtol=1e-3, atol=1e-6)


def test_a_price_for_slots_needs_nats() -> None:
    with pytest.raises(UserError, match=r"needs --model.objective pixel-mixture"):
        SlotAttentionConfig(presence=Schedule.parse(10))
    with pytest.raises(UserError, match=r"model\.presence must never be below 0"):
        SlotAttentionConfig(objective="pixel-mixture", presence=Schedule.parse(-1))
