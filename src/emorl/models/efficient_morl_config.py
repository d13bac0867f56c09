"""The settings of EfficientMORL, in groups: encoder, decoder, inference and objective."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from emorl.errors import UserError, check_numbers
from emorl.geco import GecoConfig
from emorl.models.parts import DecoderConfig, EncoderConfig, check_block
from emorl.nn.prior import Prior
from emorl.schedules import Schedule

PRICES = ("area_price", "colour_price", "foreground_price")
LossWeights = Literal["code", "paper", "increasing"]


@dataclass(frozen=True)
class InferenceConfig:
    """How slots are found: the layers of stage 1, and how their weights start."""

    num_layers: int = 3  # L, stochastic layers of stage 1; 0 leaves refinement alone
    # How often stage 1 is done outside training; what explains an image best is refined.
    starts: int = 1
    gru: Literal["dual", "single"] = "dual"  # two GRUs for mean and scale, or the ablation's one
    attention_norm: bool = False  # layer norm on attention inputs, as Slot Attention has
    own_frame: int = 0  # channels of the pooling in the slot's own frame (nn/own_frame.py); 0: without
    initialisation: Literal["official", "scaled"] = "official"  # the authors' tiny weights, or He and Xavier
    sharpness: float = 1.0  # of attention at the start: what the weights of the queries are multiplied by
    scale_bias: float = 0.0  # initial bias of the scale MLP; -6 starts posteriors at a deviation of 0.05

    def __post_init__(self) -> None:
        check_numbers("model.inference", self, num_layers=0, starts=1, own_frame=0, positive=("sharpness",))


@dataclass(frozen=True)
class ObjectiveConfig:
    """What is minimised: the negative ELBO, its likelihood, its prior, and the weights of its parts."""

    # One Gaussian around the sum of slots; or one per slot, of which one explains each channel, or each pixel.
    likelihood: Literal["gaussian", "mixture", "pixel-mixture"] = "mixture"
    sigma: Schedule = Schedule.parse(0.1)  # scale of those Gaussians
    block: int = 1  # train on one pixel of each block x block, drawn anew (nn/lattice.py); needs "pixels"
    busy: float = 0.0  # share of as many pixels that is drawn where an image changes, such as at outlines
    prior: Prior = "reversed++"  # direction of the hierarchical prior, and what refinement is held to
    prior_draw: Literal["fresh", "ancestral"] = "fresh"  # which sample conditions the prior (Difference 17)
    loss_weights: LossWeights = "code"  # of the losses along refinement (Difference 1)
    kl_weight: Schedule = Schedule.parse(1)  # β
    # Nats that each used slot costs; above 0, slots that are not needed become empty.
    presence: Schedule = Schedule.parse(0)
    # A slot larger than `free_area` costs log(area / free_area) times so many nats: one large slot is cheaper than
    # several that share its pixels, so the background gets a slot of its own.
    area_price: Schedule = Schedule.parse(0)
    free_area: float = 0.12  # share of the image that costs nothing: a little more than an object
    # Nats for each pixel of a slot times the squared distance of its colour to the slot's mean colour: plain objects
    # and a plain background then have a slot each, instead of sharing one.
    colour_price: Schedule = Schedule.parse(0)
    # Nats for each pixel outside the largest slot: the background keeps what it can show nearly as well as an object
    # can, such as shadows.
    foreground_price: Schedule = Schedule.parse(0)
    nll_weight: float = 1.0  # of the reconstruction; GECO multiplies it
    geco: GecoConfig = field(default_factory=lambda: GecoConfig(target=-61000.0))

    def __post_init__(self) -> None:
        check_numbers("model.objective", self, block=1, busy=0, nll_weight=0, positive=("free_area",))
        if self.busy >= 1 or (self.busy and self.block == 1):
            raise UserError(
                f"model.objective.busy is a share below 1, of pixels in blocks of at least 2; it is {self.busy} of "
                f"blocks of {self.block}."
            )
        if self.sigma.smallest <= 0:
            raise UserError(f"model.objective.sigma must always be above 0, unlike in {str(self.sigma)!r}.")
        if self.kl_weight.smallest < 0:
            raise UserError(
                f"model.objective.kl_weight must never be below 0, as in {str(self.kl_weight)!r}."
            )
        for name in ("presence", *PRICES):
            price = getattr(self, name)
            if price.smallest < 0:
                raise UserError(f"model.objective.{name} must never be below 0, as in {str(price)!r}.")


@dataclass(frozen=True)
class EfficientMORLConfig:
    """The paper's CLEVR6 configuration by default."""

    image_size: int = 96  # side of the square images
    num_slots: int = 7  # K, unless a call says otherwise
    slot_size: int = 64  # D
    num_steps: int = 1  # I, refinement steps at test time, unless a call says otherwise
    encoder: EncoderConfig = field(default_factory=EncoderConfig)
    decoder: DecoderConfig = field(default_factory=DecoderConfig)
    inference: InferenceConfig = field(default_factory=InferenceConfig)
    objective: ObjectiveConfig = field(default_factory=ObjectiveConfig)

    def __post_init__(self) -> None:
        check_numbers("model", self, image_size=5, num_slots=1, slot_size=1, num_steps=0)
        check_block("model.objective.block", self.objective.block, self.decoder)
