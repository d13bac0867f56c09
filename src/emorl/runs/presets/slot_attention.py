"""Slot Attention and Slot MLP, its baseline."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.models.slot_attention import SlotAttentionConfig, SlotAutoencoderConfig
from emorl.models.slot_mlp import SlotMLPConfig
from emorl.runs.config import TrainConfig
from emorl.runs.presets.common import FAST, LARGER, LEAN, LEAST, TINY, TOKENS, named
from emorl.schedules import Schedule

# As published: no clipping, and as many iterations as the model has.
PAPER = TrainConfig(steps=500_000, batch_size=64, max_grad_norm=1e9, num_steps=None)


def presets(config: type[SlotAutoencoderConfig], fast: TrainConfig) -> dict[str, tuple[Any, TrainConfig]]:
    """Returns the presets of Slot Attention or Slot MLP, whose configuration class is `config`."""

    def larger(dataset: str, *, sigma: float, presence: str) -> SlotAutoencoderConfig:
        """A mixture gives the background a slot of its own; a price empties slots that share an object."""
        start: dict[str, Any] = {"initialisation": "scaled"} if config is SlotAttentionConfig else {}
        return config(
            **LARGER[dataset],
            **start,
            slot_size=64,
            encoder=TOKENS,
            objective="pixel-mixture",
            likelihood_sigma=sigma,
            presence=Schedule.parse(presence),
        )

    small: dict[str, Any] = {"encoder": EncoderConfig(channels=32), "decoder": DecoderConfig("padded")}
    return {
        "tetrominoes-paper": (config(**small | {"image_size": 35, "num_slots": 4}), PAPER),
        "multi-dsprites-paper": (config(**small | {"image_size": 64, "num_slots": 6}), PAPER),
        # The size at which the authors of EfficientMORL trained it.
        "clevr6-paper": (config(image_size=96), PAPER),
        "tetrominoes": (config(**LEAN), fast),
        "multi-dsprites": (
            larger("multi-dsprites", sigma=0.2, presence="0 1500:0 linear 3000:30"),
            replace(fast, steps=9_000),
        ),
        "clevr6": (larger("clevr6", sigma=0.1, presence="0 17%:0 linear 33%:30"), replace(fast, steps=6_000)),
        "tetrominoes-tiny": (config(**LEAST | {"hidden_size": 16}), replace(TINY, num_steps=None)),
    }


FAST_16K = replace(FAST, steps=16_000, num_steps=None)
SLOT_ATTENTION = presets(SlotAttentionConfig, FAST_16K)
# Muon would spend most of a step on its one large matrix.
SLOT_MLP = presets(SlotMLPConfig, replace(FAST_16K, optimizer="adam"))

PRESETS = named("slot-attention", SLOT_ATTENTION) | named("slot-mlp", SLOT_MLP)
