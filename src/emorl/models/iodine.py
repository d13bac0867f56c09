"""IODINE (Greff et al., ICML 2019): slots inferred by nothing but the refinement of a first guess.

B images, K slots of size D, T refinements. λ = (μ, unconstrained scale) is (B, K, 2D). The network that refines it sees
what each slot paints and how well that explains the image, pixel by pixel.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from emorl.errors import check_numbers, check_range
from emorl.models.base import Model
from emorl.models.iodine_inputs import CHANNELS, NORMED, PixelLikelihood, refinement_inputs
from emorl.models.parts import DecoderConfig, check_block, pixels_to_look_at
from emorl.nn import initialise
from emorl.nn.gradient import value_and_gradient
from emorl.nn.lattice import AllPixels, Pixels, middle_lattice
from emorl.nn.mlp import mlp
from emorl.nn.position import coordinate_grid, cosine_grid
from emorl.nn.recurrent import LSTM
from emorl.probability import Gaussian, Noise, as_float32, total
from emorl.schedules import Schedule
from emorl.types import Decomposition, Outcome

State = tuple[Tensor, Tensor]
MOST_LAYERS = 100  # that look at pixels; after a dozen there is one left


@dataclass(frozen=True)
class IODINEConfig:
    """The published CLEVR6 configuration by default."""

    image_size: int = 128  # side of the square images
    num_slots: int = 7  # K, unless a call says otherwise
    slot_size: int = 64  # D
    num_steps: int = 5  # T, refinements, unless a call says otherwise
    likelihood: Literal["mixture", "logistic", "gaussian"] = "mixture"  # the paper's, the code's, and a sum
    likelihood_sigma: float = 0.1  # scale; the published code has 0.03 with "logistic"
    bounded: bool = False  # colours through a sigmoid; the published ones are any number
    prior_variance: float = 1.0  # the published code has softplus(0) = 0.693
    decoder: DecoderConfig = field(default_factory=lambda: DecoderConfig("same-3x3"))
    refine_channels: int = 64  # of the convolutions that look at pixels
    refine_layers: int = 4  # each halves the resolution
    refine_kernel: int = 3
    refine_pooling: bool = True  # take their mean over the image, as published; or all of them, with places
    refine_sizes: tuple[int, ...] = (256, 256)  # of the MLP after them
    coordinates: Literal["linear", "cosine"] = "linear"  # how refinement knows where a pixel is
    lstm_size: int = 256  # 0: refinement has no memory
    # As published: differentiate the inputs of refinement too, which costs two more decodings.
    picture_gradients: bool = False
    legacy_constants: bool = False  # as published: a constant beside slots, one beside pixels, one beside λ
    initialisation: Literal["official", "scaled"] = "official"  # Sonnet's defaults, or He and Xavier
    scale_bias: float = 0.0  # what each refinement adds to the unconstrained scale at the start
    kl_weight: Schedule = Schedule.parse(1)  # β
    # Train on, and refine at all times by, one pixel of each block x block (nn/lattice.py); needs "pixels".
    block: int = 1

    def __post_init__(self) -> None:
        check_numbers(
            "model", self, image_size=5, num_slots=1, slot_size=1, num_steps=1, refine_channels=1,
            refine_layers=1, refine_kernel=1, lstm_size=0, block=1,
            positive=("likelihood_sigma", "prior_variance"),
        )  # fmt: skip
        check_range("model.refine_layers", self.refine_layers, 1, MOST_LAYERS)
        check_block("model.block", self.block, self.decoder)


class IODINE(Model):
    """K symmetric slots: all start with one distribution, differ by their samples, and are refined T times."""

    Config: ClassVar[type] = IODINEConfig
    least_steps: ClassVar[int | None] = 1
    terms = ("nll", "kl")
    config: IODINEConfig
    kl_weight: Tensor

    def __init__(self, config: IODINEConfig) -> None:
        super().__init__()
        self.config = config
        self.lam0 = nn.Parameter(torch.empty(2 * config.slot_size))
        slot_size = config.slot_size + config.legacy_constants
        self.decoder = config.decoder.build(image_size=config.image_size, slot_size=slot_size)
        self.likelihood = PixelLikelihood(config.likelihood, config.likelihood_sigma)
        self.refine = RefinementNetwork(config, self.likelihood)
        self.register_schedules()
        self.initialise()

    def initialise(self) -> None:
        """Sonnet's defaults, or weights that keep the size of signals; then λ and the bias of scales."""
        start = initialise.sonnet if self.config.initialisation == "official" else initialise.scaled
        start(self.decoder, self.refine)
        self.decoder.initialise()
        if self.refine.lstm is not None and self.config.initialisation == "official":
            gates = self.refine.lstm.gates
            initialise.truncated_normal(gates.bias, inputs=gates.in_features)
        bound = (3 / len(self.lam0)) ** 0.5  # TensorFlow's default for a vector
        nn.init.uniform_(self.lam0, -bound, bound)
        nn.init.constant_(self.refine.head.bias[self.config.slot_size :], self.config.scale_bias)

    def compute(self, x: Tensor, K: int, T: int, noise: Noise, *, trace: bool) -> Outcome:
        """Decodes, differentiates and refines T times; late losses count most."""
        training, beta = torch.is_grad_enabled(), self.kl_weight
        lam, state = self.lam0.expand(x.shape[0], K, -1), None
        loss, steps, updates = x.new_zeros(()), [], {}
        lattice = self.lattice(x)
        for t, weight in enumerate(refinement_weights(T)):
            with torch.enable_grad():  # refinement differentiates, at test time too
                # There each step starts a new graph, so memory does not grow with T.
                lam = lam if training else lam.detach().requires_grad_()
                q = Gaussian.from_params(lam)
                z = noise.answer(q) if 0 < t == T else noise.sample(q)  # the first draw tells slots apart
                kl = q.kl(Gaussian(torch.zeros_like(z), z.new_full(z.shape, self.config.prior_variance**0.5)))
                pixels = lattice if training or t < T else AllPixels()  # the answer is painted in full
                cost, nll, *picture = self.reconstruct(
                    x, z, pixels, trained=training and weight > 0, is_last=t == T
                )
                loss_t = cost + beta * kl.sum()
                loss = loss + weight * loss_t
                if t == T or trace:
                    in_full = picture[0] if training or pixels.weights is None else self.paint(z).detach()
                    steps.append(shown(in_full, q.mu.detach()))
                if t < T:
                    (gradient,) = torch.autograd.grad(loss_t, lam, retain_graph=training)
            if t < T:
                delta, state = self.refine(self.look(x, z, pixels, *picture), lam, gradient, state)
                lam = lam + delta
                updates[f"update_{t + 1}"] = delta.detach().flatten(1).norm(dim=1)
        terms = {"nll": nll, "kl": kl.detach(), **updates}
        return Outcome(loss / x.shape[0], terms, tuple(steps))

    def lattice(self, x: Tensor) -> Pixels:
        """The pixels that refinement looks at: drawn anew in training, always the same ones at test time."""
        block = self.config.block
        if block == 1 or torch.is_grad_enabled():
            return pixels_to_look_at(x, block, training=True)
        return middle_lattice(self.config.image_size, block, x.device)

    def reconstruct(
        self, x: Tensor, z: Tensor, pixels: Pixels, *, trained: bool, is_last: bool
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Decodes `z`. Returns its NLL summed over images, per image, what slots paint, and the gradient of that.

        All of it at these `pixels`. Only the sum can be differentiated: with respect to the decoder too where the loss
        counts, to `z` alone where it only guides refinement, and not at all where nothing follows.
        """
        parameters = self.decoder.parameters() if trained else ()
        needed = trained or not is_last

        def f(z: Tensor, images: slice) -> tuple[Tensor, ...]:
            return self.explain(x[images], z, pixels, needs_gradient=needed)

        return value_and_gradient(  # type: ignore[return-value]
            f, z, parameters, needed=needed, images_at_once=self.decoder.images_at_once(z)
        )

    def explain(
        self, x: Tensor, z: Tensor, pixels: Pixels, *, needs_gradient: bool
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Decodes `z`. Returns its NLL per image, what slots paint, and the gradient of the NLL with respect to that.

        Autograd computes that gradient for the one of `z`, but does not return it. Likelihoods are cheap beside
        decoders, so it is computed a second time; it is zero if not needed.
        """
        x, painted = pixels.of(x), self.paint(z, pixels.coordinates(like=z))
        nll = -total(self.likelihood(x, painted), pixels.weights)
        if not needs_gradient:
            return nll, painted, torch.zeros_like(painted)
        with torch.enable_grad():
            seen = painted.detach().requires_grad_()
            (gradient,) = torch.autograd.grad(-total(self.likelihood(x, seen), pixels.weights).sum(), seen)
        return nll, painted, gradient

    def look(self, x: Tensor, z: Tensor, pixels: Pixels, painted: Tensor, gradient: Tensor) -> Tensor:
        """Returns the features (B, K, C) that refinement computes from the pictures that `z` has `painted`.

        In training its activations are computed again in the backward pass, so that memory does not grow with T.
        """

        def f(z: Tensor) -> Tensor:
            again = training and self.config.picture_gradients
            pictures = self.paint(z, pixels.coordinates(like=z)) if again else painted
            return self.refine.look(pixels.of(x), pictures, gradient)

        training = torch.is_grad_enabled()
        if not training:
            return f(z)
        seen: Tensor = checkpoint(f, z, use_reentrant=False, preserve_rng_state=False)
        return seen

    def paint(self, z: Tensor, coordinates: Tensor | None = None) -> Tensor:
        """Returns the colours and the mask logit of each slot's picture, (B, K, 4, H, W)."""
        if self.config.legacy_constants:
            z = torch.cat([z, z.new_full((*z.shape[:2], 1), 5.0)], dim=-1)
        painted = self.decoder.render(z, coordinates)
        if not self.config.bounded:
            return painted
        colours, logits = painted.split([3, 1], dim=2)
        return torch.cat([colours.sigmoid(), logits], dim=2)

    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """As Model has it; `slots` are values of z."""
        self.check_slots(slots, size)
        painted = shown(self.paint(slots, self.places(size, slots)), slots)
        return painted if size in (None, painted.masks.shape[-1]) else painted.resized(size)

    def layers(self, slots: Tensor) -> tuple[Tensor, Tensor] | None:
        """As Model has it, with colours cut off at 0 and 1."""
        colours, logits = self.paint(slots).split([3, 1], dim=2)
        return logits, colours.clamp(0, 1)

    @property
    def schedules(self) -> dict[str, Schedule]:
        """β."""
        return {"kl_weight": self.config.kl_weight}


def refinement_weights(T: int) -> list[float]:
    """Weights of the losses before and after each refinement: late ones count most, the first guess not at all."""
    return [t / T for t in range(T + 1)]


def shown(painted: Tensor, slots: Tensor) -> Decomposition:
    """The decomposition that `painted` (B, K, 4, H, W) shows, with colours cut off at 0 and 1."""
    colours, logits = painted.split([3, 1], dim=2)
    return Decomposition(logits.softmax(dim=1), colours.clamp(0, 1), slots)


class RefinementNetwork(nn.Module):
    """Proposes an update of each slot's posterior, given what it paints and the gradient of the loss."""

    def __init__(self, config: IODINEConfig, likelihood: PixelLikelihood) -> None:
        super().__init__()
        self.likelihood = likelihood
        self.coordinates = {"linear": coordinate_grid, "cosine": cosine_grid}[config.coordinates]
        self.constant = config.legacy_constants
        # Over the pixels and channels of a slot, with a gain and an offset per channel.
        self.norms = nn.ModuleDict({name: nn.GroupNorm(1, CHANNELS[name]) for name in NORMED})
        D, C, k = config.slot_size, config.refine_channels, config.refine_kernel
        size = sum(CHANNELS.values()) + {"linear": 2, "cosine": 8}[config.coordinates] + self.constant
        layers: list[nn.Module] = []
        for _ in range(config.refine_layers):
            layers += [nn.Conv2d(size, C, k, stride=2, padding=k // 2), nn.ELU(inplace=True)]
            size = C
        self.convolutions = nn.Sequential(*layers)
        self.convolutions.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.pooling = config.refine_pooling
        side = -(-config.image_size // (config.block * 2**config.refine_layers))
        self.mlp = mlp(C if self.pooling else C * side**2, *config.refine_sizes, activation=nn.ELU)
        self.norm_gradient = nn.LayerNorm(2 * D)
        size = (C, *config.refine_sizes)[-1] + 4 * D + self.constant
        self.lstm = LSTM(size, config.lstm_size) if config.lstm_size else None
        self.head = nn.Linear(config.lstm_size or size, 2 * D)

    def look(self, x: Tensor, painted: Tensor, gradient: Tensor) -> Tensor:
        """Sums up how what each slot has `painted` (B, K, 4, H, W) explains `x`, as a vector. Returns (B, K, C)."""
        B, K, _, H, W = painted.shape
        seen = refinement_inputs(x, painted, gradient, self.likelihood)
        for name, norm in self.norms.items():
            seen[name] = norm(seen[name].flatten(0, 1)).unflatten(0, seen[name].shape[:2])
        seen["coordinates"] = self.coordinates(H, W, like=x).unsqueeze(1)
        if self.constant:
            seen["constant"] = x.new_full((1, 1, 1, 1, 1), 0.5)
        inputs = torch.cat([image.expand(B, K, -1, H, W) for image in seen.values()], dim=2)
        features = self.convolutions(inputs.flatten(0, 1).contiguous(memory_format=torch.channels_last))
        pooled = features.mean(dim=(2, 3)) if self.pooling else features.flatten(1)
        summary: Tensor = self.mlp(pooled).unflatten(0, (B, K))
        return summary

    def forward(
        self, seen: Tensor, lam: Tensor, gradient: Tensor, state: State | None
    ) -> tuple[Tensor, State | None]:
        """Returns δλ (B, K, 2D) and the LSTM's new state, if there is one."""
        inputs = [seen, lam, self.norm_gradient(gradient)]
        if self.constant:
            inputs.append(lam.new_full((*lam.shape[:2], 1), 0.5))
        hidden = torch.cat(inputs, dim=-1)
        if self.lstm is not None:
            state = self.lstm(hidden, state)
            hidden = state[0]
        delta = as_float32(self.head(hidden))
        return delta, state
