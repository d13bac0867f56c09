"""MODELS, by name; build(config) turns a model's config into a model."""

from __future__ import annotations

import reprlib
from typing import Any

from emorl.errors import UserError
from emorl.models.base import Model
from emorl.models.efficient_morl import EfficientMORL
from emorl.models.genesis import Genesis
from emorl.models.genesis_v2 import GenesisV2
from emorl.models.iodine import IODINE
from emorl.models.monet import MONet
from emorl.models.slot_attention import SlotAttention
from emorl.models.slot_mlp import SlotMLP

MODELS: dict[str, type[Model]] = {
    "efficient-morl": EfficientMORL,
    "slot-attention": SlotAttention,
    "slot-mlp": SlotMLP,
    "genesis": Genesis,
    "iodine": IODINE,
    "monet": MONet,
    "genesis-v2": GenesisV2,
}


def kind_of(config: Any) -> str:
    """The name in MODELS of the model that `config` configures. Raises UserError if it is no model's config."""
    for name, model in MODELS.items():
        if model.Config is type(config):
            return name
    raise UserError(
        f"A model is built from its configuration, such as emorl.PRESETS[...].model, not from {reprlib.repr(config)}."
    )


def build(config: Any) -> Model:
    """Returns a freshly initialised model."""
    return MODELS[kind_of(config)](config)
