"""PRESETS: the paper's hyper-parameter tables, and ours for small machines, as data."""

from __future__ import annotations

from dataclasses import replace

from emorl.data import FOLDER, DataConfig
from emorl.geco import GecoConfig
from emorl.models.efficient_morl import EfficientMORLConfig
from emorl.training.run import RunConfig, TrainConfig

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
CLEVR6 = EfficientMORLConfig()

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

FAST = TrainConfig(
    steps=14_000,
    batch_size=16,
    optimizer="muon",
    learning_rate=1e-3,
    warm_up=200,
    decay="cosine",
    curriculum=((0, 1),),
    evaluate_every=500,
    evaluate_images=128,
    checkpoint_every=250,
)

PAPER = TrainConfig(steps=300_000, curriculum=((0, 3), (100_000, 1)))

PRESETS: dict[str, RunConfig] = {
    "efficient-morl/tetrominoes": RunConfig(
        TETROMINOES, DataConfig("tetrominoes"), TrainConfig(steps=200_000)
    ),
    "efficient-morl/multi-dsprites": RunConfig(MULTI_DSPRITES, DataConfig("multi-dsprites"), PAPER),
    "efficient-morl/clevr6": RunConfig(CLEVR6, DataConfig("clevr6"), PAPER),
    "efficient-morl/tetrominoes-fast": RunConfig(TETROMINOES_FAST, DataConfig("tetrominoes"), FAST),
    "efficient-morl/folder": RunConfig(FOLDER_FAST, DataConfig(FOLDER, image_size=64), FAST),
    "efficient-morl/tetrominoes-tiny": RunConfig(
        TETROMINOES_TINY,
        DataConfig("tetrominoes"),
        replace(
            FAST,
            steps=20,
            batch_size=4,
            warm_up=2,
            decay="none",
            evaluate_every=10,
            evaluate_images=8,
            checkpoint_every=10,
        ),
    ),
}
