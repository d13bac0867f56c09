"""EfficientMORL, as published and for small machines."""

from __future__ import annotations

from dataclasses import replace

from emorl.data import FOLDER, DataConfig
from emorl.geco import GecoConfig
from emorl.models.efficient_morl import EfficientMORLConfig
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.presets.common import FAST, TINY, named

TETROMINOES = EfficientMORLConfig(
    image_size=35,
    num_slots=4,
    slot_size=32,
    num_steps=3,
    likelihood="gaussian",
    likelihood_sigma=0.3,
    decoder="small",
    # Below the floor of -4424.6: the weight of the reconstruction grows all the time (deviation 4).
    geco=GecoConfig(target=-4500.0, allow_unreachable=True),
)

MULTI_DSPRITES = EfficientMORLConfig(
    image_size=64,
    num_slots=6,
    slot_size=64,
    likelihood="gaussian",
    likelihood_sigma=0.1,
    geco=GecoConfig(),
)

# For two CPU cores: objects first, with almost no KL, from a posterior that starts narrow; then the KL comes down.
TETROMINOES_FAST = replace(
    TETROMINOES,
    num_steps=1,
    encoder_channels=32,
    encoder_stride=2,
    decoder="lean",
    position="fourier",
    attention_norm=True,
    initialisation="scaled",
    scale_bias=-6.0,
    loss_weights="paper",
    nll_weight=3.5,
    kl_start=0.007,
    kl_ramp=(800, 6000),
    geco=GecoConfig(),
)

TETROMINOES_TINY = replace(
    TETROMINOES_FAST, slot_size=8, encoder_channels=8, decoder_channels=8, frequencies=2
)

# One's own images: as fast, with more slots and room for what they look like.
FOLDER_FAST = replace(TETROMINOES_FAST, image_size=64, num_slots=6, slot_size=64)

# Larger images take several times as long, so there are fewer steps. Plain sprites have the leaner decoder, which
# makes those cheaper; patterns keep the finer one.
TEXTURED_FAST = replace(FOLDER_FAST, kl_ramp=(800, 3000))
SPRITES_FAST = replace(FOLDER_FAST, decoder="leaner", kl_ramp=(800, 4000))

PAPER = TrainConfig(steps=300_000, curriculum=((0, 3), (100_000, 1)))

PRESETS = named(
    "efficient-morl",
    {
        "tetrominoes": (TETROMINOES, TrainConfig(steps=200_000)),
        "multi-dsprites": (MULTI_DSPRITES, PAPER),
        "multi-dsprites-textured": (MULTI_DSPRITES, PAPER),
        "clevr6": (EfficientMORLConfig(), PAPER),
        "tetrominoes-fast": (TETROMINOES_FAST, FAST),
        "multi-dsprites-fast": (SPRITES_FAST, replace(FAST, steps=7_000)),
        "multi-dsprites-textured-fast": (TEXTURED_FAST, replace(FAST, steps=4_000)),
        "tetrominoes-tiny": (TETROMINOES_TINY, TINY),
    },
)
PRESETS["efficient-morl/folder"] = RunConfig(FOLDER_FAST, DataConfig(FOLDER, image_size=64), FAST)
