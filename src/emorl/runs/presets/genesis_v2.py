"""GENESIS-V2, trained like GENESIS."""

from __future__ import annotations

from dataclasses import replace

from emorl.geco import KLGecoConfig
from emorl.models.genesis_v2 import GenesisV2Config
from emorl.models.parts import DecoderConfig
from emorl.runs.presets.common import FAST, TINY, named
from emorl.runs.presets.genesis import PAPER

TETROMINOES_FAST = GenesisV2Config(
    image_size=35,
    num_slots=4,
    slot_size=32,
    channels=16,
    decoder=DecoderConfig("lean", frequencies=8),
    frequencies=8,
    hidden_size=64,
    likelihood="gaussian",
    likelihood_sigma=0.16,
    scale_bias=-3.5,
    # Hardly any KL until the squared error is below 0.002; then as much as that leaves room for.
    geco=KLGecoConfig(goal=-0.875, start=0.01, bounds=(0.01, 1.0)),
)
TETROMINOES_TINY = replace(
    TETROMINOES_FAST,
    slot_size=8,
    channels=8,
    decoder=DecoderConfig("lean", channels=8, frequencies=2),
    frequencies=2,
    hidden_size=16,
    geco=KLGecoConfig(),
)

PRESETS = named(
    "genesis-v2",
    {
        "tetrominoes": (GenesisV2Config(image_size=35, num_slots=4), PAPER),
        "multi-dsprites": (GenesisV2Config(image_size=64, num_slots=6), PAPER),
        "clevr6": (GenesisV2Config(), PAPER),
        "tetrominoes-fast": (TETROMINOES_FAST, replace(FAST, steps=12_000, num_steps=None)),
        "tetrominoes-tiny": (TETROMINOES_TINY, replace(TINY, num_steps=None)),
    },
)
