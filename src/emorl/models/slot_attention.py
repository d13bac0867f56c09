"""Slot Attention (Locatello et al., NeurIPS 2020): an autoencoder whose slots compete for the pixels of an image.

SlotAutoencoder is what it shares with its baseline, models/slot_mlp.py.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from emorl.errors import UserError, check_numbers
from emorl.models.base import Model
from emorl.models.parts import DecoderConfig, EncoderConfig, check_block, pixels_to_look_at
from emorl.models.prices import slots_in_use
from emorl.nn import initialise
from emorl.nn.attention import SetAttention
from emorl.nn.mlp import mlp
from emorl.probability import Gaussian, Noise, pixel_mixture_nll, total
from emorl.schedules import Schedule
from emorl.types import Decomposition, Outcome


@dataclass(frozen=True)
class SlotAutoencoderConfig:
    """The published CLEVR6 configuration by default."""

    image_size: int = 128  # side of the square images
    num_slots: int = 7  # K
    slot_size: int = 64  # D
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=lambda: DecoderConfig("deconv"))
    block: int = 1  # train on one pixel of each block x block, drawn anew (nn/lattice.py); needs "pixels"
    # What is minimised: the squared error, as published, or the NLL of pixels each explained by one slot.
    objective: Literal["error", "pixel-mixture"] = "error"
    likelihood_sigma: float = 0.1  # scale of that mixture, on the scale from 0 to 1
    # Nats that each used slot costs beside that NLL; above 0, slots that are not needed become empty.
    presence: Schedule = Schedule.parse(0)

    def __post_init__(self) -> None:
        check_numbers(
            "model", self, image_size=5, num_slots=1, slot_size=1, block=1, positive=("likelihood_sigma",)
        )
        if self.presence.smallest < 0:
            raise UserError(f"model.presence must never be below 0, as in {str(self.presence)!r}.")
        if self.presence.largest > 0 and self.objective == "error":
            raise UserError("model.presence is in nats, so it needs --model.objective pixel-mixture.")
        check_block("model.block", self.block, self.decoder)


class SlotAutoencoder(Model):
    """An encoder of tokens, a decoder of slots, and the error between image and reconstruction."""

    terms = ("error",)
    config: SlotAutoencoderConfig
    presence: Tensor

    def __init__(self, config: SlotAutoencoderConfig) -> None:
        super().__init__()
        self.config = config
        self.encoder = config.encoder.build()
        self.decoder = config.decoder.build(image_size=config.image_size, slot_size=config.slot_size)
        self.register_schedules()

    @property
    def schedules(self) -> dict[str, Schedule]:
        """The cost of a used slot, if there is one."""
        return {"presence": self.config.presence} if self.config.presence.largest > 0 else {}

    def reconstruct(self, x: Tensor, slots: Tensor) -> tuple[Tensor, Tensor, Decomposition]:
        """Returns what is minimised, of each image, its squared error on the scale from -1 to 1, and the decoding.

        Both are means over pixels and channels. Training looks at a lattice of pixels, if configured.
        """
        pixels = pixels_to_look_at(x, self.config.block, training=torch.is_grad_enabled())
        log_masks, colours = self.decoder.unbounded(slots, pixels.coordinates(like=slots))
        wanted, masks = 2 * pixels.of(x) - 1, log_masks.exp()
        error = total((wanted - (masks * colours).sum(dim=1)).square(), pixels.weights) / x[0].numel()
        cost = error
        if self.config.objective == "pixel-mixture":
            sigma = 2 * self.config.likelihood_sigma
            nll = pixel_mixture_nll(wanted, log_masks, colours, sigma, pixels.weights)
            if self.schedules:
                nll = nll + self.presence * slots_in_use(masks, pixels.weights)
            cost = nll / x[0].numel()
        return cost, error, self.rendered((log_masks, to_unit(colours)), slots, None)

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """As Model has it, with colours cut off at 0 and 1."""
        self.check_slots(slots, size)
        log_masks, colours = self.decoder.unbounded(slots, self.places(size, slots))
        return self.rendered((log_masks, to_unit(colours)), slots, size)

    def layers(self, slots: Tensor) -> tuple[Tensor, Tensor] | None:
        """As Model has it, with colours cut off at 0 and 1."""
        colours, logits = self.decoder.render(slots).split([3, 1], dim=2)
        return logits, to_unit(colours)


def to_unit(colours: Tensor) -> Tensor:
    """Colours on the scale from -1 to 1, not bounded by it, on the scale from 0 to 1."""
    return ((colours + 1) / 2).clamp(0, 1)


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

    def compute(self, x: Tensor, K: int, T: int, noise: Noise, *, trace: bool) -> Outcome:
        """Draws slots, lets them compete for tokens T times, and decodes them."""
        keys, values = self.attention.keys_and_values(self.encoder(x))
        side = self.encoder.grid(self.config.image_size)
        shape = (x.shape[0], K, self.config.slot_size)
        slots = noise.sample(Gaussian(self.mu.expand(shape), self.log_sigma.exp().expand(shape)))
        steps = []
        for t in range(1, T + 1):
            update, alpha = self.attention(keys, values, slots)
            slots = self.gru(update.flatten(0, 1), slots.flatten(0, 1)).reshape(shape)
            slots = slots + self.mlp(self.norm(slots))
            if t == T or trace:
                cost, error, step = self.reconstruct(x, slots)
                attention = alpha.detach().unflatten(-1, (1, side, side))
                steps.append(replace(step.detach(), attention=attention))
        return Outcome(cost.mean(), {"error": error.detach()}, tuple(steps))
