"""MONet."""

from __future__ import annotations

from dataclasses import replace

from emorl.models.monet import MONetConfig
from emorl.models.parts import DecoderConfig
from emorl.runs.config import TrainConfig
from emorl.runs.presets.common import FAST, LARGER, TINY, named
from emorl.schedules import Schedule

PAPER = TrainConfig(
    steps=500_000,
    batch_size=64,
    learning_rate=Schedule.parse("1e-4 geometric 500000:5e-5"),
    max_grad_norm=1e9,
    num_steps=None,
)
TETROMINOES = MONetConfig(image_size=35, num_slots=4, background_sigma=0.3, foreground_sigma=0.36)
TETROMINOES_FAST = replace(
    TETROMINOES,
    attention_channels=16,
    decoder=DecoderConfig("lean", frequencies=8),
    # Channel by channel, a black and a white slot share saturated colours for ever. With the published KL weight of 0.5
    # slots stay unused, and one has all objects of a colour; with 0.02 they share whatever comes.
    likelihood="pixel-mixture",
    background_sigma=0.2,
    foreground_sigma=0.22,
    initialisation="scaled",
    scale_bias=-3.0,
    kl_weight=0.1,
    mask_weight=1.0,
)


def larger(dataset: str) -> MONetConfig:
    """Attention looks at larger images at half their size."""
    return replace(
        TETROMINOES_FAST,
        **LARGER[dataset],
        slot_size=64,
        attention_stride=2,
        background_sigma=0.1,
        foreground_sigma=0.11,
    )


TETROMINOES_TINY = replace(
    TETROMINOES_FAST,
    slot_size=8,
    attention_channels=4,
    encoder_channels=4,
    decoder=DecoderConfig("lean", 8, 2),
)

PRESETS = named(
    "monet",
    {
        "tetrominoes-paper": (TETROMINOES, PAPER),
        "multi-dsprites-paper": (MONetConfig(image_size=64, num_slots=6), PAPER),
        # Published with RMSprop; Adam here.
        "clevr6-paper": (
            MONetConfig(),
            replace(PAPER, batch_size=32, learning_rate=Schedule.parse("3e-5 geometric 500000:1.5e-5")),
        ),
        "tetrominoes": (TETROMINOES_FAST, replace(FAST, steps=8_000, num_steps=None)),
        "multi-dsprites": (larger("multi-dsprites"), replace(FAST, steps=8_000, num_steps=None)),
        "clevr6": (larger("clevr6"), replace(FAST, steps=5_000, num_steps=None)),
        "tetrominoes-tiny": (TETROMINOES_TINY, replace(TINY, num_steps=None)),
    },
)
