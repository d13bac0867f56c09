"""What presets have in common: how long and how small machines train, and how a preset gets its name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from emorl.data import DataConfig
from emorl.runs.config import RunConfig, TrainConfig

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


def named(kind: str, presets: Mapping[str, tuple[Any, TrainConfig]]) -> dict[str, RunConfig]:
    """Presets "kind/name" of a model's configurations, by data set and -fast or -tiny."""
    return {
        f"{kind}/{name}": RunConfig(
            model, DataConfig(name.removesuffix("-fast").removesuffix("-tiny")), train
        )
        for name, (model, train) in presets.items()
    }
