"""PRESETS: the paper's hyper-parameter tables, and ours for small machines, as data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from emorl.data import FOLDER, DataConfig
from emorl.geco import GecoConfig
from emorl.models.efficient_morl import EfficientMORLConfig
from emorl.models.slot_attention import SlotAttentionConfig
from emorl.models.slot_autoencoder import SlotAutoencoderConfig
from emorl.models.slot_mlp import SlotMLPConfig
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

# The same recipe for larger images: a step takes five times as long, so there are fewer.
SPRITES_FAST = replace(FOLDER_FAST, kl_ramp=(800, 3000))

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

FAST_SPRITES = replace(FAST, steps=6_000)

TINY = replace(
    FAST,
    steps=20,
    batch_size=4,
    warm_up=2,
    decay="none",
    evaluate_every=10,
    evaluate_images=8,
    checkpoint_every=10,
)

PAPER = TrainConfig(steps=300_000, curriculum=((0, 3), (100_000, 1)))
# As published: no clipping, and as many iterations as the model has.
SLOT_ATTENTION = TrainConfig(steps=500_000, batch_size=64, max_grad_norm=1e9, curriculum=())

# What makes EfficientMORL cheap and quick on CPUs does the same for its relatives.
LEAN: dict[str, Any] = {
    "image_size": 35,
    "num_slots": 4,
    "slot_size": 32,
    "encoder_channels": 32,
    "encoder_stride": 2,
    "decoder": "lean",
    "position": "fourier",
}
LEAST: dict[str, Any] = LEAN | {
    "slot_size": 8,
    "encoder_channels": 8,
    "decoder_channels": 8,
    "frequencies": 2,
}


def slot_autoencoders(kind: str, config: type[SlotAutoencoderConfig], **tiny: Any) -> dict[str, RunConfig]:
    """Presets of Slot Attention and of its baseline, which differ in nothing else."""
    sprites: dict[str, Any] = {"encoder_channels": 32, "decoder": "padded"}
    tetrominoes = config(**sprites | {"image_size": 35, "num_slots": 4})
    presets = {
        "tetrominoes": RunConfig(tetrominoes, DataConfig("tetrominoes"), SLOT_ATTENTION),
        "multi-dsprites": RunConfig(
            config(**sprites | {"image_size": 64, "num_slots": 6}),
            DataConfig("multi-dsprites"),
            SLOT_ATTENTION,
        ),
        # The authors of EfficientMORL trained it on images of this size.
        "clevr6": RunConfig(config(image_size=96), DataConfig("clevr6"), SLOT_ATTENTION),
        "tetrominoes-fast": RunConfig(
            config(**LEAN), DataConfig("tetrominoes"), replace(FAST, curriculum=())
        ),
        "tetrominoes-tiny": RunConfig(
            config(**LEAST, **tiny), DataConfig("tetrominoes"), replace(TINY, curriculum=())
        ),
    }
    return {f"{kind}/{name}": run for name, run in presets.items()}


PRESETS: dict[str, RunConfig] = {
    "efficient-morl/tetrominoes": RunConfig(
        TETROMINOES, DataConfig("tetrominoes"), TrainConfig(steps=200_000)
    ),
    "efficient-morl/multi-dsprites": RunConfig(MULTI_DSPRITES, DataConfig("multi-dsprites"), PAPER),
    "efficient-morl/multi-dsprites-textured": RunConfig(
        MULTI_DSPRITES, DataConfig("multi-dsprites-textured"), PAPER
    ),
    "efficient-morl/clevr6": RunConfig(CLEVR6, DataConfig("clevr6"), PAPER),
    "efficient-morl/tetrominoes-fast": RunConfig(TETROMINOES_FAST, DataConfig("tetrominoes"), FAST),
    "efficient-morl/multi-dsprites-fast": RunConfig(SPRITES_FAST, DataConfig("multi-dsprites"), FAST_SPRITES),
    "efficient-morl/multi-dsprites-textured-fast": RunConfig(
        SPRITES_FAST, DataConfig("multi-dsprites-textured"), FAST_SPRITES
    ),
    "efficient-morl/folder": RunConfig(FOLDER_FAST, DataConfig(FOLDER, image_size=64), FAST),
    "efficient-morl/tetrominoes-tiny": RunConfig(
        TETROMINOES_TINY,
        DataConfig("tetrominoes"),
        TINY,
    ),
    **slot_autoencoders("slot-attention", SlotAttentionConfig, hidden_size=16),
    **slot_autoencoders("slot-mlp", SlotMLPConfig, hidden_size=16),
}
