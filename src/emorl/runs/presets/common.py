"""What presets have in common: how long and how small machines train, and how a preset gets its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from emorl.data import DataConfig
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.runs.config import RunConfig, TrainConfig
from emorl.schedules import Schedule

FAST = TrainConfig(
    steps=14_000,
    batch_size=16,
    optimizer="muon",
    learning_rate=Schedule.parse("0 linear 200:0.001 cosine 100%:0"),
    num_steps=Schedule.parse(1),
    evaluate_every=500,
    evaluate_images=128,
    checkpoint_every=250,
)

TINY = replace(
    FAST,
    steps=20,
    batch_size=4,
    learning_rate=Schedule.parse("0 linear 2:0.001"),
    evaluate_every=10,
    evaluate_images=8,
    checkpoint_every=10,
)

# What makes EfficientMORL cheap and quick on CPUs does the same for its relatives.
LEAN: dict[str, Any] = {
    "image_size": 35,
    "num_slots": 4,
    "slot_size": 32,
    "encoder": EncoderConfig(channels=32, stride=2, frequencies=8),
    "decoder": DecoderConfig("lean", frequencies=8),
}
LEAST: dict[str, Any] = LEAN | {
    "slot_size": 8,
    "encoder": EncoderConfig(channels=8, stride=2, frequencies=2),
    "decoder": DecoderConfig("lean", channels=8, frequencies=2),
}


# What EfficientMORL's recipe has for larger images, for every system that can have it: the tokens, and a decoder of
# single pixels that trains on one pixel of each block (docs/learning.md).
TOKENS = EncoderConfig("pyramid", channels=64, frequencies=8)
PIXELS = DecoderConfig("pixels")
LARGER: dict[str, dict[str, Any]] = {
    "multi-dsprites": {"image_size": 64, "num_slots": 6, "decoder": PIXELS, "block": 3},
    "clevr6": {"image_size": 96, "num_slots": 7, "decoder": PIXELS, "block": 4},
}
CLEVR6_FAST = DataConfig("clevr6-fast", train_size=20_000)


def named(kind: str, presets: Mapping[str, tuple[Any, TrainConfig]]) -> dict[str, RunConfig]:
    """Presets "kind/name" of a model's configurations. A name is that of a data set, some with an `ending`."""
    data = {"clevr6": CLEVR6_FAST}  # small machines have scenes that are quick to make
    return {
        f"{kind}/{name}": RunConfig(
            model, data.get(name) or DataConfig(name.removesuffix(ending(name))), train
        )
        for name, (model, train) in presets.items()
    }


def ending(name: str) -> str:
    """What follows the data set in the name of a preset; nothing, where it is the usual one for small machines."""
    return next((end for end in ("-paper", "-tiny", "-plain") if name.endswith(end)), "")
