"""Slot MLP, Slot Attention's baseline: the same autoencoder, with slots read off by an MLP in a fixed order."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch.nn.functional as F
from torch import Tensor, nn

from emorl.errors import check_numbers
from emorl.models.slot_attention import SlotAutoencoder, SlotAutoencoderConfig
from emorl.nn import initialise
from emorl.nn.mlp import mlp
from emorl.probability import Noise, as_float32
from emorl.types import Outcome

GRID = 16  # side that tokens are resized to, so that the first layer does not grow with the image


@dataclass(frozen=True)
class SlotMLPConfig(SlotAutoencoderConfig):
    """The published CLEVR6 configuration by default."""

    hidden_size: int = 512  # of the MLP

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("model", self, hidden_size=1)


class SlotMLP(SlotAutoencoder):
    """Ordered slots: not symmetric, K fixed in training. It is expected to do badly."""

    Config: ClassVar[type] = SlotMLPConfig
    has_fixed_slots: ClassVar[bool] = True
    config: SlotMLPConfig

    def __init__(self, config: SlotMLPConfig) -> None:
        super().__init__(config)
        C, H = config.encoder.channels, config.hidden_size
        self.mlp = mlp(GRID * GRID * C, H, H, config.num_slots * config.slot_size, activation=nn.ReLU)
        initialise.keras(self)
        self.decoder.initialise()

    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        """Reads all slots off the tokens at once, and decodes them."""
        side = self.encoder.grid(self.config.image_size)
        tokens = as_float32(self.encoder(x)).mT.unflatten(-1, (side, side))  # CPUs do not resize bf16
        tokens = F.interpolate(tokens, size=(GRID, GRID), mode="bilinear", antialias=True)
        slots = self.mlp(tokens.flatten(1)).unflatten(-1, (K, -1))
        cost, error, step = self.reconstruct(x, slots)
        return Outcome(cost.mean(), {"error": error.detach()}, (step.detach(),))
