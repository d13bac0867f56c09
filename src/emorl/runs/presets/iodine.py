"""IODINE."""

from __future__ import annotations

from dataclasses import replace

from emorl.models.iodine import IODINEConfig
from emorl.models.parts import DecoderConfig
from emorl.runs.config import TrainConfig
from emorl.runs.presets.common import FAST, LARGER, TINY, named
from emorl.schedules import Schedule

# A tenth of the rate after a million steps. Published with a beta1 of 0.95; Adam's default here.
PAPER = TrainConfig(
    steps=1_000_000, learning_rate=Schedule.parse("3e-4 geometric 1000000:3e-5"), num_steps=None
)
TETROMINOES = IODINEConfig(
    image_size=35,
    num_slots=4,
    slot_size=32,
    decoder=DecoderConfig("same-5x5", channels=32),
    refine_channels=32,
    refine_layers=3,
    refine_kernel=5,
    refine_sizes=(128,),
    coordinates="cosine",
    lstm_size=0,
)
# A mixture finds the colours first and the places late, so slots compose pixels here; refinement keeps track of places,
# and two rounds of it start from posteriors that become narrow at once. The scale is EfficientMORL's there.
TETROMINOES_FAST = replace(
    TETROMINOES,
    num_steps=2,
    likelihood="gaussian",
    likelihood_sigma=0.16,
    bounded=True,
    decoder=DecoderConfig("lean", channels=32, frequencies=8),
    refine_kernel=3,
    refine_pooling=False,
    refine_sizes=(64,),
    lstm_size=64,
    initialisation="scaled",
    scale_bias=-3.0,
    kl_weight=Schedule.parse("0.007 800:0.007 geometric 4000:1"),
)


def larger(dataset: str) -> IODINEConfig:
    """For larger images refinement looks at a lattice of pixels, and the mixture of the paper gives objects a slot."""
    return replace(
        TETROMINOES_FAST,
        **LARGER[dataset],
        slot_size=64,
        num_steps=3,
        likelihood="mixture",
        likelihood_sigma=0.1,
        refine_channels=64,
        refine_layers=2,
        refine_sizes=(128,),
        lstm_size=128,
        kl_weight=Schedule.parse("0.007 8%:0.007 geometric 40%:1"),
    )


TETROMINOES_TINY = replace(
    TETROMINOES_FAST,
    slot_size=8,
    decoder=DecoderConfig("lean", channels=8, frequencies=2),
    refine_channels=8,
    refine_sizes=(16,),
    lstm_size=16,
)

PRESETS = named(
    "iodine",
    {
        "tetrominoes-paper": (TETROMINOES, replace(PAPER, batch_size=256)),
        "multi-dsprites-paper": (
            replace(TETROMINOES, image_size=64, num_slots=6, slot_size=16, lstm_size=128),
            replace(PAPER, batch_size=128),
        ),
        # Published for 128x128 pixels; scenes here have 96.
        "clevr6-paper": (
            IODINEConfig(image_size=96),
            replace(PAPER, batch_size=32, learning_rate=Schedule.parse("1e-3 geometric 1000000:1e-4")),
        ),
        "tetrominoes": (TETROMINOES_FAST, replace(FAST, steps=8_000, num_steps=None)),
        "multi-dsprites": (larger("multi-dsprites"), replace(FAST, steps=8_000, num_steps=None)),
        "clevr6": (larger("clevr6"), replace(FAST, steps=6_000, num_steps=None)),
        "tetrominoes-tiny": (TETROMINOES_TINY, replace(TINY, num_steps=None)),
    },
)
