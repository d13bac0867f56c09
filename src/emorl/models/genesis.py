"""GENESIS and GENESIS-S (Engelcke et al., ICLR 2020): masks from latents in a sequence, by breaking a stick.

B images, K slots. `z_m` is z^m, what a slot's mask is made of, and `z_c` is z^c, its appearance. The posterior and the
prior of z^m_k depend on z^m_1..z^m_{k-1}, so slots have an order; GENESIS-S makes both out of one latent.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn

from emorl.errors import UserError, check_numbers
from emorl.geco import KLGecoConfig
from emorl.models.base import Model
from emorl.nn import initialise
from emorl.nn.autoregressive import AutoregressivePrior, posterior_from, prior_from
from emorl.nn.component import ComponentEncoder
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.nn.gated import GatedDecoder, GatedEncoder, Norm
from emorl.nn.mlp import mlp
from emorl.nn.stick_breaking import stick_breaking
from emorl.probability import LIKELIHOODS, Gaussian, Noise
from emorl.types import Decomposition, Outcome


@dataclass(frozen=True)
class GenesisConfig:
    """The published configuration by default, for CLEVR6 at 96x96 pixels."""

    image_size: int = 96  # side of the square images
    num_slots: int = 7  # K, unless a call says otherwise
    shared: bool = False  # GENESIS-S: one latent for a slot's mask and its appearance
    mask_size: int = 64  # of z^m
    component_size: int = 16  # of z^c, if not shared
    channels: int = 32  # of the convolutions, half of those next to a latent
    hidden_size: int = 256  # of the image's features, the LSTM of the prior and the MLPs
    strides: tuple[int, int, int, int, int] | None = None  # of the mask encoder; None: the published ones
    norm: Norm = "batch"  # in the gated convolutions
    decoder: Literal["appearance", "lean-appearance"] = "appearance"  # layout, see nn/decoder_layouts.py
    initialisation: Literal["pytorch", "scaled"] = "pytorch"  # its defaults, as published, or He and Xavier
    scale_bias: float = 0.0  # initial bias of posterior scales; -3 starts them at 0.08 instead of 0.97
    # One Gaussian around the sum, or one per slot, each channel or each pixel explained by one of them.
    likelihood: Literal["gaussian", "mixture", "pixel-mixture"] = "mixture"
    likelihood_sigma: float = 0.7  # scale of those Gaussians
    geco: KLGecoConfig = field(default_factory=KLGecoConfig)

    def __post_init__(self) -> None:
        check_numbers(
            "model", self, image_size=5, num_slots=1, mask_size=1, component_size=1, channels=1, hidden_size=2,
            positive=("likelihood_sigma",),
        )  # fmt: skip
        if self.strides is not None and min(self.strides) < 1:
            raise UserError(f"model.strides must be at least 1, not {self.strides}.")


def published_strides(image_size: int) -> tuple[int, ...]:
    """Strides of the mask encoder, which leave 8x8 to 16x16 numbers of each channel."""
    if image_size <= 64:
        return 1, 2, 1, 2, 1
    return (2, 2, 2, 1, 1) if image_size <= 128 else (2, 2, 2, 2, 1)


class Genesis(Model):
    """Slots in a sequence, each aware of those before it: an ordered, generative model of scenes."""

    Config: ClassVar[type] = GenesisConfig
    terms: tuple[str, ...] = ("nll", "kl", "kl_mask", "kl_component", "kl_weight")
    config: GenesisConfig

    def __init__(self, config: GenesisConfig) -> None:
        super().__init__()
        self.config = config
        size, C, H = config.image_size, config.channels, config.hidden_size
        D, D_c = config.mask_size, config.component_size
        strides = config.strides or published_strides(size)
        self.encoder = GatedEncoder(C, size_out=H, image_size=size, strides=strides, norm=config.norm)
        self.posterior = AutoregressivePosterior(H, D, state_size=H // 2)
        self.prior = AutoregressivePrior(D, hidden_size=H)
        self.mask_decoder = GatedDecoder(C, size_in=D, image_size=size, strides=strides, norm=config.norm)
        self.component_encoder = self.component_prior = None
        if config.shared:
            self.terms = ("nll", "kl", "kl_mask", "kl_weight")
        else:
            self.component_encoder = ComponentEncoder(
                size, 2 * D_c, channels=C, hidden_size=H, activation=nn.ELU
            )
            self.component_prior = mlp(D, H, H, 2 * D_c, activation=nn.ELU)
        self.decoder = SpatialBroadcastDecoder(
            config.decoder, image_size=size, slot_size=D if config.shared else D_c, channels=C
        )
        self.likelihood = LIKELIHOODS[config.likelihood]
        self.geco = config.geco.build(image_size=size, sigma=config.likelihood_sigma)
        self.initialise()

    def initialise(self) -> None:
        """PyTorch's defaults stay, or are scaled; then the biases of posterior scales are moved."""
        if self.config.initialisation == "scaled":
            initialise.scaled(self)
            if self.config.shared:  # else masks pick pixels of two colours that slots mix, as in MONet
                initialise.without_checkerboard(self.decoder)
        biases = [self.posterior.first.bias, self.posterior.head.bias]
        if self.component_encoder is not None:
            biases.append(self.component_encoder.mlp.get_parameter("2.bias"))
        with torch.no_grad():
            for bias in biases:
                bias.chunk(2)[1].add_(self.config.scale_bias)

    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        """Masks from z^m, then appearances from z^c, or both from one latent."""
        learn = self.training and torch.is_grad_enabled()

        q_m, z_m = self.posterior(self.encoder(x, learn=learn), K, noise)
        log_masks = self.log_masks(z_m, learn=learn)
        # The authors estimate every KL by the sample that is decoded. Given the slots before it, each is known in
        # closed form: the same mean, less noise.
        kls = {"kl_mask": q_m.kl(self.prior(z_m))}
        slots, z_c = q_m.mu, z_m
        if self.component_encoder is not None and self.component_prior is not None:
            q_c = posterior_from(self.component_encoder(x, log_masks))
            kls["kl_component"] = q_c.kl(prior_from(self.component_prior(z_m)))
            slots, z_c = torch.cat([q_m.mu, q_c.mu], dim=-1), noise.answer(q_c)
        components = self.decoder.render(z_c).sigmoid()

        nll = self.likelihood(x, log_masks, components, self.config.likelihood_sigma)
        kl = torch.stack(list(kls.values())).sum(dim=0)
        beta = self.geco.beta.clone()  # `adapt` changes it in place, and what was logged must not follow
        terms = {"nll": nll, "kl": kl, **kls, "kl_weight": beta}
        answer = Decomposition(log_masks.exp(), components, slots).detach()
        return Outcome((nll + beta * kl).mean(), {name: t.detach() for name, t in terms.items()}, (answer,))

    def log_masks(self, z_m: Tensor, *, learn: bool) -> Tensor:
        """Returns log π (B, K, 1, H, W) of `z_m` (B, K, D). The last slot takes what is left, whatever its latent."""
        shares = z_m[:, :-1]
        if shares.shape[1] == 0:  # one slot
            size = self.config.image_size
            return z_m.new_zeros(z_m.shape[0], 1, 1, size, size)
        logits = self.mask_decoder(shares.flatten(0, 1), learn=learn)
        return stick_breaking(logits.unflatten(0, shares.shape[:2]))

    @property
    def title(self) -> str:
        """GENESIS, or GENESIS-S where a slot has one latent."""
        return "GENESIS-S" if self.config.shared else "GENESIS"

    @property
    def slot_size(self) -> int:
        """D, how many numbers a slot has: z^m and z^c, or the one latent of GENESIS-S."""
        return self.config.mask_size + (0 if self.config.shared else self.config.component_size)

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """As Model has it; a slot is z^m and then z^c, or the one latent of GENESIS-S."""
        self.check_slots(slots, size)
        z_m = slots[..., : self.config.mask_size]
        z_c = slots if self.config.shared else slots[..., self.config.mask_size :]
        decoded = self.log_masks(z_m, learn=False), self.decoder.render(z_c).sigmoid()
        return self.rendered(decoded, slots, size)

    def layers(self, slots: Tensor) -> tuple[Tensor, Tensor] | None:
        """None: a slot's mask is a share of what the slots before it have left."""
        return None

    def adapt(self, terms: Mapping[str, Tensor]) -> None:
        """Moves the weight of the KL."""
        self.geco.update(terms["nll"])

    def is_fully_used(self, num_steps: int | None) -> bool:
        """With one slot there is no mask to decode, and no slot before to depend on."""
        return self.config.num_slots > 1


class AutoregressivePosterior(nn.Module):
    """q(z_1 | x) q(z_2 | z_1, x) ... q(z_K | z_1..z_{K-1}, x)."""

    def __init__(self, feature_size: int, slot_size: int, *, state_size: int) -> None:
        super().__init__()
        self.first = nn.Linear(feature_size, 2 * slot_size)
        self.lstm = nn.LSTMCell(feature_size + slot_size, state_size)
        self.head = nn.Linear(state_size, 2 * slot_size)

    def forward(self, features: Tensor, num_slots: int, noise: Noise) -> tuple[Gaussian, Tensor]:
        """Returns the posterior of each slot and the samples (B, K, D) that those after it are given."""
        q = [posterior_from(self.first(features))]
        z, state = [noise.answer(q[0])], None
        for _ in range(num_slots - 1):
            state = self.lstm(torch.cat([features, z[-1]], dim=-1), state)
            q.append(posterior_from(self.head(state[0])))
            z.append(noise.answer(q[-1]))
        mu, sigma = torch.stack([q_k.mu for q_k in q], dim=1), torch.stack([q_k.sigma for q_k in q], dim=1)
        return Gaussian(mu, sigma), torch.stack(z, dim=1)
