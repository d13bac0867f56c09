"""Slot Attention (Locatello et al., NeurIPS 2020): an autoencoder whose slots compete for the pixels of an image."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from emorl.errors import check_numbers
from emorl.models.slot_autoencoder import SlotAutoencoder, SlotAutoencoderConfig
from emorl.nn import initialise
from emorl.nn.attention import SetAttention
from emorl.nn.mlp import mlp
from emorl.probability import Gaussian, Noise
from emorl.types import Outcome


@dataclass(frozen=True)
class SlotAttentionConfig(SlotAutoencoderConfig):
    """The published CLEVR6 configuration by default."""

    num_steps: int = 3  # iterations of attention, unless a call says otherwise
    hidden_size: int = 128  # of the MLP after each iteration
    # Keras's defaults, as published; or stronger features, weaker positions in the tokens, and less noise in slots.
    initialisation: Literal["keras", "scaled"] = "keras"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_numbers("model", self, num_steps=1, hidden_size=1)


class SlotAttention(SlotAutoencoder):
    """K slots from one distribution, refined by rounds of attention: symmetric, without a latent prior."""

    Config: ClassVar[type] = SlotAttentionConfig
    least_steps: ClassVar[int | None] = 1
    config: SlotAttentionConfig

    def __init__(self, config: SlotAttentionConfig) -> None:
        super().__init__(config)
        D = config.slot_size
        self.mu, self.log_sigma = nn.Parameter(torch.empty(1, D)), nn.Parameter(torch.empty(1, D))
        self.attention = SetAttention(config.encoder.channels, D, norm_inputs=True)
        self.gru = nn.GRUCell(D, D)
        self.norm = nn.LayerNorm(D)
        self.mlp = mlp(D, config.hidden_size, D, activation=nn.ReLU)
        self.initialise()

    def initialise(self) -> None:
        """Keras's defaults; "scaled" changes the convolutions and how strong features and noise are."""
        is_scaled = self.config.initialisation == "scaled"
        initialise.keras(self)
        if is_scaled:
            initialise.scaled(self.encoder.convolutions, *self.decoder.painters)
            initialise.without_checkerboard(self.decoder)
        self.decoder.initialise()
        nn.init.xavier_uniform_(self.mu)
        nn.init.xavier_uniform_(self.log_sigma)
        if is_scaled:
            # Four Glorot convolutions leave features a thirtieth as strong as positions, and slots tend to part images
            # by place. Here features are the stronger ones, and attention to them is sharper; see docs/comparison.md.
            with torch.no_grad():
                self.encoder.position.project.weight.mul_(0.2)
                self.attention.k.weight.mul_(3)
                self.log_sigma.sub_(1.6)  # a fifth: the GRU carries this noise along with what it reads

    def forward(
        self,
        x: Tensor,
        *,
        num_slots: int | None = None,
        num_steps: int | None = None,
        trace: bool = False,
        noise: Noise | None = None,
    ) -> Outcome:
        """Draws slots, lets them compete for tokens T times, and decodes them."""
        self.check_images(x)
        K, T = self.budget(num_slots, num_steps)
        keys, values = self.attention.keys_and_values(self.encoder(x))
        side = self.encoder.grid(self.config.image_size)
        shape = (len(x), K, self.config.slot_size)
        slots = (noise or Noise()).start(Gaussian(self.mu.expand(shape), self.log_sigma.exp().expand(shape)))
        steps = []
        for t in range(1, T + 1):
            update, alpha = self.attention(keys, values, slots)
            slots = self.gru(update.flatten(0, 1), slots.flatten(0, 1)).reshape(shape)
            slots = slots + self.mlp(self.norm(slots))
            if t == T or trace:
                error, step = self.reconstruct(x, slots)
                attention = alpha.detach().unflatten(-1, (1, side, side))
                steps.append(replace(step.detach(), attention=attention))
        return Outcome(error.mean(), {"error": error.detach()}, tuple(steps))
