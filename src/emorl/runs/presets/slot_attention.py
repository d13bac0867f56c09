"""Slot Attention and Slot MLP, its baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.models.slot_attention import SlotAttentionConfig, SlotAutoencoderConfig
from emorl.models.slot_mlp import SlotMLPConfig
from emorl.runs.config import TrainConfig
from emorl.runs.presets.common import FAST, LEAN, LEAST, TINY, named

# As published: no clipping, and as many iterations as the model has.
PAPER = TrainConfig(steps=500_000, batch_size=64, max_grad_norm=1e9, num_steps=None)


def presets(config: type[SlotAutoencoderConfig], fast: TrainConfig) -> dict[str, tuple[Any, TrainConfig]]:
    """Returns the presets of Slot Attention or Slot MLP, whose configuration class is `config`."""
    small: dict[str, Any] = {"encoder": EncoderConfig(channels=32), "decoder": DecoderConfig("padded")}
    return {
        "tetrominoes-paper": (config(**small | {"image_size": 35, "num_slots": 4}), PAPER),
        "multi-dsprites-paper": (config(**small | {"image_size": 64, "num_slots": 6}), PAPER),
        # The size at which the authors of EfficientMORL trained it.
        "clevr6-paper": (config(image_size=96), PAPER),
        "tetrominoes": (config(**LEAN), fast),
        "tetrominoes-tiny": (config(**LEAST | {"hidden_size": 16}), replace(TINY, num_steps=None)),
    }


LEANER = DecoderConfig("leaner", frequencies=8)
FAST_16K = replace(FAST, steps=16_000, num_steps=None)
SLOT_ATTENTION = presets(SlotAttentionConfig, FAST_16K) | {
    "multi-dsprites": (
        SlotAttentionConfig(
            **LEAN | {"image_size": 64, "num_slots": 6, "slot_size": 64, "decoder": LEANER},
            initialisation="scaled",
        ),
        replace(FAST, steps=12_000, num_steps=None),
    )
}
# Muon would spend most of a step on its one large matrix.
SLOT_MLP = presets(SlotMLPConfig, replace(FAST_16K, optimizer="adam"))

PRESETS = named("slot-attention", SLOT_ATTENTION) | named("slot-mlp", SLOT_MLP)
