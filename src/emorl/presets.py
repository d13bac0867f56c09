"""PRESETS: the paper's hyper-parameter tables, and ours for small machines, as data."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Literal

from emorl.data import FOLDER, DataConfig
from emorl.geco import GecoConfig, KLGecoConfig
from emorl.models.efficient_morl import EfficientMORLConfig
from emorl.models.genesis import GenesisConfig
from emorl.models.genesis_v2 import GenesisV2Config
from emorl.models.iodine import IODINEConfig
from emorl.models.monet import MONetConfig
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

FAST_SPRITES = replace(FAST, steps=4_000)

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


def slot_autoencoders(
    kind: str, config: type[SlotAutoencoderConfig], optimizer: Literal["adam", "muon"], **tiny: Any
) -> dict[str, RunConfig]:
    """Presets of Slot Attention and of its baseline, which differ in nothing but the optimiser of the fast one."""
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
            config(**LEAN),
            DataConfig("tetrominoes"),
            replace(FAST, steps=16_000, optimizer=optimizer, curriculum=()),
        ),
        "tetrominoes-tiny": RunConfig(
            config(**LEAST, **tiny), DataConfig("tetrominoes"), replace(TINY, curriculum=())
        ),
    }
    return {f"{kind}/{name}": run for name, run in presets.items()}


# --- GENESIS and GENESIS-S
GENESIS = TrainConfig(
    steps=500_000,
    batch_size=32,
    learning_rate=1e-4,
    warm_up=0,
    decay="none",
    max_grad_norm=1e9,
    curriculum=(),
)
GENESIS_FAST = GenesisConfig(
    image_size=35,
    num_slots=4,
    mask_size=32,
    channels=16,
    hidden_size=128,
    strides=(2, 2, 2, 1, 1),
    norm="instance",
    decoder="lean-appearance",
    initialisation="scaled",
    scale_bias=-3.0,
    likelihood="pixel-mixture",
    likelihood_sigma=0.3,
    # Hardly any KL until the squared error is below 0.004; then as much as that leaves room for.
    geco=KLGecoConfig(goal=-0.263, start=0.0022, bounds=(0.0022, 1.0)),
)
# On textures it learned with one Gaussian alone, the authors of EfficientMORL say, and with a slower GECO. The goal is
# the same squared error as with the published scale, 0.003.
GENESIS_TEXTURED = GenesisConfig(
    64, 6, likelihood="gaussian", likelihood_sigma=0.1, geco=KLGecoConfig(goal=-1.225, step_size=1e-6)
)
GENESIS_TEXTURED_FAST = replace(
    GENESIS_FAST,
    image_size=64,
    num_slots=6,
    mask_size=64,
    likelihood="gaussian",
    likelihood_sigma=0.16,
    geco=KLGecoConfig(goal=-0.82, start=0.0022, bounds=(0.0022, 1.0)),
)
GENESIS_TINY = replace(GENESIS_FAST, mask_size=8, component_size=4, channels=4, hidden_size=16)


def genesis(kind: str, *, shared: bool) -> dict[str, RunConfig]:
    """Presets of GENESIS, or of GENESIS-S where latents are shared."""
    presets = {
        "tetrominoes": (GenesisConfig(35, 4), GENESIS),
        "multi-dsprites": (GenesisConfig(64, 6), GENESIS),
        "clevr6": (GenesisConfig(96, 7), GENESIS),
        "multi-dsprites-textured": (GENESIS_TEXTURED, GENESIS),
        "tetrominoes-fast": (GENESIS_FAST, replace(FAST, steps=9_000, curriculum=())),
        "multi-dsprites-textured-fast": (GENESIS_TEXTURED_FAST, replace(FAST_SPRITES, curriculum=())),
        "tetrominoes-tiny": (GENESIS_TINY, replace(TINY, curriculum=())),
    }
    return {
        f"{kind}/{name}": RunConfig(
            replace(model, shared=shared), DataConfig(name.removesuffix("-fast").removesuffix("-tiny")), train
        )
        for name, (model, train) in presets.items()
    }


# --- MONet
MONET = TrainConfig(
    steps=500_000,
    batch_size=64,
    learning_rate=1e-4,
    warm_up=0,
    half_life=500_000,
    max_grad_norm=1e9,
    curriculum=(),
)
MONET_TETROMINOES = MONetConfig(image_size=35, num_slots=4, background_sigma=0.3, foreground_sigma=0.36)
MONET_FAST = replace(
    MONET_TETROMINOES,
    attention_channels=16,
    decoder="lean",
    frequencies=8,
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
MONET_TINY = replace(
    MONET_FAST, slot_size=8, attention_channels=4, encoder_channels=4, decoder_channels=8, frequencies=2
)
MONETS = {
    "monet/tetrominoes": RunConfig(MONET_TETROMINOES, DataConfig("tetrominoes"), MONET),
    "monet/multi-dsprites": RunConfig(
        MONetConfig(image_size=64, num_slots=6), DataConfig("multi-dsprites"), MONET
    ),
    # Published with RMSprop; Adam here.
    "monet/clevr6": RunConfig(
        MONetConfig(), DataConfig("clevr6"), replace(MONET, batch_size=32, learning_rate=3e-5)
    ),
    "monet/tetrominoes-fast": RunConfig(
        MONET_FAST, DataConfig("tetrominoes"), replace(FAST, steps=8_000, curriculum=())
    ),
    "monet/tetrominoes-tiny": RunConfig(MONET_TINY, DataConfig("tetrominoes"), replace(TINY, curriculum=())),
}

# --- GENESIS-V2, trained like GENESIS
GENESIS_V2_FAST = GenesisV2Config(
    image_size=35,
    num_slots=4,
    slot_size=32,
    channels=16,
    decoder="lean",
    frequencies=8,
    hidden_size=64,
    likelihood="gaussian",
    likelihood_sigma=0.16,
    scale_bias=-3.5,
    # Hardly any KL until the squared error is below 0.002; then as much as that leaves room for.
    geco=KLGecoConfig(goal=-0.875, start=0.01, bounds=(0.01, 1.0)),
)
GENESIS_V2_TINY = replace(
    GENESIS_V2_FAST,
    slot_size=8,
    channels=8,
    decoder_channels=8,
    frequencies=2,
    hidden_size=16,
    geco=KLGecoConfig(),
)
GENESIS_V2S = {
    "genesis-v2/tetrominoes": RunConfig(
        GenesisV2Config(image_size=35, num_slots=4), DataConfig("tetrominoes"), GENESIS
    ),
    "genesis-v2/multi-dsprites": RunConfig(
        GenesisV2Config(image_size=64, num_slots=6), DataConfig("multi-dsprites"), GENESIS
    ),
    "genesis-v2/clevr6": RunConfig(GenesisV2Config(), DataConfig("clevr6"), GENESIS),
    "genesis-v2/tetrominoes-fast": RunConfig(
        GENESIS_V2_FAST, DataConfig("tetrominoes"), replace(FAST, steps=12_000, curriculum=())
    ),
    "genesis-v2/tetrominoes-tiny": RunConfig(
        GENESIS_V2_TINY, DataConfig("tetrominoes"), replace(TINY, curriculum=())
    ),
}

# --- IODINE
# A tenth of the rate after a million steps. Published with a beta1 of 0.95; Adam's default here.
IODINE = TrainConfig(
    steps=1_000_000, learning_rate=3e-4, warm_up=0, half_life=301_030, max_grad_norm=5.0, curriculum=()
)
IODINE_TETROMINOES = IODINEConfig(
    image_size=35,
    num_slots=4,
    slot_size=32,
    decoder="same-5x5",
    decoder_channels=32,
    refine_channels=32,
    refine_layers=3,
    refine_kernel=5,
    refine_sizes=(128,),
    coordinates="cosine",
    lstm_size=0,
)
# A mixture finds the colours first and the places late, so slots compose pixels here; refinement keeps track of places,
# and two rounds of it start from posteriors that become narrow at once. The scale is EfficientMORL's there.
IODINE_FAST = replace(
    IODINE_TETROMINOES,
    num_steps=2,
    likelihood="gaussian",
    likelihood_sigma=0.16,
    bounded=True,
    decoder="lean",
    refine_kernel=3,
    refine_pooling=False,
    refine_sizes=(64,),
    lstm_size=64,
    initialisation="scaled",
    scale_bias=-3.0,
    kl_start=0.007,
    kl_ramp=(800, 4000),
)
IODINE_TINY = replace(
    IODINE_FAST,
    slot_size=8,
    decoder_channels=8,
    frequencies=2,
    refine_channels=8,
    refine_sizes=(16,),
    lstm_size=16,
)
IODINES = {
    "iodine/tetrominoes": RunConfig(
        IODINE_TETROMINOES, DataConfig("tetrominoes"), replace(IODINE, batch_size=256)
    ),
    "iodine/multi-dsprites": RunConfig(
        replace(IODINE_TETROMINOES, image_size=64, num_slots=6, slot_size=16, lstm_size=128),
        DataConfig("multi-dsprites"),
        replace(IODINE, batch_size=128),
    ),
    # Published for 128x128 pixels; scenes here have 96.
    "iodine/clevr6": RunConfig(
        IODINEConfig(image_size=96), DataConfig("clevr6"), replace(IODINE, batch_size=32, learning_rate=1e-3)
    ),
    "iodine/tetrominoes-fast": RunConfig(
        IODINE_FAST, DataConfig("tetrominoes"), replace(FAST, steps=8_000, curriculum=())
    ),
    "iodine/tetrominoes-tiny": RunConfig(
        IODINE_TINY, DataConfig("tetrominoes"), replace(TINY, curriculum=())
    ),
}


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
    **slot_autoencoders("slot-attention", SlotAttentionConfig, "muon", hidden_size=16),
    "slot-attention/multi-dsprites-fast": RunConfig(
        SlotAttentionConfig(**LEAN | {"image_size": 64, "num_slots": 6, "slot_size": 64}),
        DataConfig("multi-dsprites"),
        replace(FAST, steps=4_500, curriculum=()),
    ),
    # Muon would spend most of a step on its one large matrix.
    **slot_autoencoders("slot-mlp", SlotMLPConfig, "adam", hidden_size=16),
    **genesis("genesis", shared=False),
    **genesis("genesis-s", shared=True),
    **MONETS,
    **IODINES,
    **GENESIS_V2S,
}
