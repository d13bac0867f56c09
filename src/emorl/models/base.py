"""Model: the contract behind which training, evaluation, reports and experiments see every system alike."""

from __future__ import annotations

import reprlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from emorl.errors import UserError, check_range, check_seed, is_whole
from emorl.nn.decoder import SlotDecoder
from emorl.nn.lattice import pixel_centres
from emorl.probability import Noise, scene_noise
from emorl.schedules import Schedule
from emorl.types import LARGEST_SIDE, Decomposition, Outcome

MOST_TRIES = 10_000


class NotFinite(UserError):
    """A model answers with infinity or NaN."""


class Model(nn.Module, ABC):
    """Explains images by K slots. Training, evaluation and reports use nothing but this class."""

    Config: ClassVar[type]  # the frozen dataclass that `build` turns into this model
    least_steps: ClassVar[int | None] = None  # of inference; None: it does not iterate
    has_fixed_slots: ClassVar[bool] = False  # whether K cannot be another than in training

    terms: tuple[str, ...]  # what every pass logs; beside it stand update_1.. of steps and kl_1.. of layers
    config: Any  # an instance of Config; has at least `image_size` and `num_slots`
    decoder: SlotDecoder

    def forward(
        self,
        x: Tensor,
        *,
        num_slots: int | None = None,
        num_steps: int | None = None,
        trace: bool = False,
        noise: Noise | None = None,
    ) -> Outcome:
        """Infers slots for `x` (B, 3, H, W) and scores them.

        None means "as configured". Raises UserError for images of another size and for a number of slots or steps that
        the model cannot have, see `step_range` and `slot_range`. With `trace`, intermediate beliefs are decoded into
        `steps` as well, at extra cost. Random numbers come from `noise`, by default from PyTorch's global generator.
        """
        self.check_images(x)
        K, steps = self.budget(num_slots, num_steps)
        return self.compute(x, K, steps, noise or Noise(), trace=trace)

    @abstractmethod
    def compute(self, x: Tensor, K: int, num_steps: int, noise: Noise, *, trace: bool) -> Outcome:
        """What `forward` returns, given images and numbers of slots and steps that were checked.

        A model that trains on a lattice of pixels has the lattice alone in `steps`, while gradients are enabled.
        """

    @abstractmethod
    def decode(self, slots: Tensor, *, size: int | None = None) -> Decomposition:
        """Renders `slots` (B, K, D), as images with sides of `size` pixels instead of the model's own."""

    def layers(self, slots: Tensor) -> tuple[Tensor, Tensor] | None:
        """Mask logits (B, K, 1, H, W) and colours (B, K, 3, H, W) in [0, 1] of each of `slots` (B, K, D) by itself.

        A softmax of the logits over slots is the masks of `decode`, so who edits one slot need not paint the others
        again. None for a model whose masks of one slot depend on the slots before it.
        """
        colours, logits = self.decoder.render(slots).split([3, 1], dim=2)
        return logits, colours.sigmoid()

    @property
    def slot_size(self) -> int:
        """D, how many numbers a slot has."""
        return int(self.config.slot_size)

    @property
    def device(self) -> torch.device:
        """Where its parameters are, and where it takes images."""
        return next(self.parameters()).device

    @property
    def title(self) -> str:
        """The system's name in tables and messages."""
        return type(self).__name__

    @property
    def step_range(self) -> tuple[int, int | None] | None:
        """The fewest and the most steps of inference it can be asked for; None if it does not iterate."""
        return None if self.least_steps is None else (self.least_steps, None)

    @property
    def slot_range(self) -> tuple[int, int | None]:
        """The fewest and the most slots it can be asked for; None for any number."""
        K = self.config.num_slots
        return (K, K) if self.has_fixed_slots else (1, None)

    @property
    def schedules(self) -> dict[str, Schedule]:
        """What changes with the training step, by the name of the buffer that holds its value."""
        return {}

    def register_schedules(self) -> None:
        """Makes a buffer for each of `schedules`, with its value at the end of training."""
        for name, schedule in self.schedules.items():
            self.register_buffer(name, torch.tensor(schedule.final, dtype=torch.float64))

    def follow(self, values: Mapping[str, float]) -> None:
        """Sets the buffers of `schedules` to the values of this training step."""
        for name, value in values.items():
            self.get_buffer(name).fill_(value)

    def adapt(self, terms: Mapping[str, Tensor]) -> None:
        """Changes non-gradient state after an optimiser step; `terms` are means over the global batch."""

    def is_fully_used(self, num_steps: int | None) -> bool:
        """Whether every parameter gets a gradient from a pass with so many steps; data parallelism must know."""
        return True

    def compile_parts(self) -> None:
        """Compiles what takes most of a training step: the first step waits for a minute, later ones are faster."""
        encoder, decoder = getattr(self, "encoder", None), self.decoder
        if isinstance(encoder, nn.Module):
            encoder.compile(dynamic=False)
        decoder.render = torch.compile(decoder.render, dynamic=False)  # type: ignore[method-assign]

    def infer(
        self,
        x: Tensor,
        *,
        num_slots: int | None = None,
        num_steps: int | None = None,
        trace: bool = False,
        noise: Noise | None = None,
    ) -> Outcome:
        """`forward` without training: no graph survives the call."""
        with torch.no_grad():  # not inference_mode: refinement differentiates at test time
            outcome: Outcome = self(x, num_slots=num_slots, num_steps=num_steps, trace=trace, noise=noise)
        return Outcome(outcome.loss.detach(), outcome.terms, tuple(step.detach() for step in outcome.steps))

    def decompose(
        self,
        x: Tensor,
        *,
        num_slots: int | None = None,
        num_steps: int | None = None,
        sample: bool = False,
        tries: int = 1,
        seed: int | None = None,
        size: int | None = None,
    ) -> Decomposition:
        """Takes images `x` (B, 3, H, W), floats in [0, 1], apart into slots.

        The posterior that inference ends with is taken at its mean, so that `decode` of the slots is this very
        decomposition (but for the masks of MONet); with `sample` it is sampled, as in training and in the paper's
        scores. Slots start at random, and sometimes two of them share one object: of several `tries` each image gets
        the one with the smallest squared error. With a `seed` the result is always the same. `size` is the side of the
        pictures and masks wanted, if not that of `x`; the "pixels" decoder paints them, from posterior means with
        `sample` too, and those of other decoders are interpolated.
        """
        check_values(x)
        self.check_images(x)
        check_range("tries", tries, 1, MOST_TRIES)
        if seed is not None:
            check_seed("seed", seed)
        if size is not None:
            check_range("size", size, 1, LARGEST_SIDE)
        noise = (
            Noise(means=not sample) if seed is None else scene_noise(seed, range(len(x)), means=not sample)
        )
        budget = {"num_slots": num_slots, "num_steps": num_steps}
        tried = [self.infer(x, **budget, noise=noise) for _ in range(tries)]  # type: ignore[arg-type]
        chosen = replace(check_finite(best_of(tried, x)).steps[-1], picture=x.detach())
        if size is None or size == self.config.image_size:
            return chosen
        with torch.no_grad():
            return replace(self.enlarged(chosen, size), picture=chosen.resized(size).picture)

    def enlarged(self, parts: Decomposition, size: int) -> Decomposition:
        """The same decomposition with pictures of another size: painted from the slots if the decoder can, or
        interpolated.
        """
        if not self.decoder.paints_anywhere:
            return parts.resized(size)
        return replace(self.decode(parts.slots, size=size), attention=parts.attention)

    def save_pretrained(self, folder: str | Path) -> Path:
        """Writes this model into `folder`, as `emorl.save_pretrained` does; that one also knows the run of a model."""
        import emorl  # here, because runs and their files are built on models

        return emorl.save_pretrained(self, folder)

    def rendered(self, decoded: tuple[Tensor, Tensor], slots: Tensor, size: int | None) -> Decomposition:
        """The decomposition that log masks and components are; enlarged if the decoder cannot paint that size."""
        log_masks, components = decoded
        painted = Decomposition(log_masks.exp(), components, slots)
        return painted if size is None or size == painted.masks.shape[-1] else painted.resized(size)

    def places(self, size: int | None, like: Tensor) -> Tensor | None:
        """The coordinates to decode for pictures with sides of `size` pixels; None where all pixels are the answer."""
        is_own = size is None or size == self.config.image_size
        return None if is_own or not self.decoder.paints_anywhere else pixel_centres(size, like)  # type: ignore[arg-type]

    def check_slots(self, slots: Tensor, size: int | None = None) -> None:
        """Raises UserError unless `slots` are (B, K, D), at least one of each, with the D of this model, and `size` is
        one that a picture can have.
        """
        if not isinstance(slots, Tensor) or not slots.is_floating_point():
            kind = slots.dtype if isinstance(slots, Tensor) else type(slots).__name__
            raise UserError(f"Slots are a tensor of floats (B, K, {self.slot_size}), not {kind}.")
        if slots.ndim != 3 or slots.shape[-1] != self.slot_size or 0 in slots.shape:
            raise UserError(
                f"This model decodes slots of shape (B, K, {self.slot_size}); got {tuple(slots.shape)}."
            )
        if size is not None:
            check_range("size", size, 1, LARGEST_SIDE)

    def check_images(self, x: Tensor) -> None:
        """Raises UserError unless `x` is a batch of images of the size this model was built for."""
        size = self.config.image_size
        if not isinstance(x, Tensor):
            raise UserError(
                f"This model takes a tensor (B, 3, {size}, {size}), not {type(x).__name__}; emorl.decompose takes "
                "files and arrays, too."
            )
        if x.ndim != 4 or tuple(x.shape[1:]) != (3, size, size):
            raise UserError(f"This model takes images of shape (B, 3, {size}, {size}); got {tuple(x.shape)}.")

    def budget(self, num_slots: int | None, num_steps: int | None) -> tuple[int, int]:
        """The numbers of slots and steps to use, as configured where None; 0 steps for a model without any.

        Raises UserError for what the model cannot have.
        """
        for name, number in (("num_slots", num_slots), ("num_steps", num_steps)):
            if number is not None and not is_whole(number):
                raise UserError(f"{name} must be a whole number, not {reprlib.repr(number)}.")
        K = self.config.num_slots if num_slots is None else num_slots
        least, most = self.slot_range
        if most is not None and most != K:
            raise UserError(f"{self.title} has the {most} slots it was trained with; it cannot have {K}.")
        if least > K:
            raise UserError(f"The number of slots must be at least {least}, not {K}.")
        if self.step_range is None:
            if num_steps is not None:
                raise UserError(f"{self.title} does not iterate; leave the number of steps out.")
            return K, 0
        I: int = self.config.num_steps if num_steps is None else num_steps
        if self.step_range[0] > I:
            raise UserError(f"The number of steps must be at least {self.step_range[0]}, not {I}.")
        return K, I


def check_values(x: Tensor) -> None:
    """Raises UserError unless `x` holds images, at least one, as floats in [0, 1]."""
    if not isinstance(x, Tensor):
        return  # check_images says what it should be
    if x.ndim == 4 and len(x) == 0:
        raise UserError("There are no images in this batch; at least one is needed.")
    if x.is_floating_point() and bool(x.isnan().any()):
        raise UserError("Images are floats in [0, 1]; some are not a number (NaN).")
    if not x.is_floating_point() or (x.numel() and not (x.amin() >= 0 and x.amax() <= 1)):
        between = f" between {float(x.amin()):g} and {float(x.amax()):g}" if x.numel() else ""
        raise UserError(f"Images are floats in [0, 1]; got {x.dtype}{between}. Divide 8-bit images by 255.")


def check_finite(outcome: Outcome) -> Outcome:
    """Returns what a model has made of images; raises NotFinite if that holds infinity or NaN.

    Weights that are finite can be so large that what is computed with them is not.
    """
    answer = outcome.steps[-1]
    if not bool(answer.slots.isfinite().all() and answer.image.isfinite().all()):
        raise NotFinite(
            "The model computes numbers that are not finite: its training diverged, or its weights are damaged."
        )
    return outcome


def best_of(tries: Sequence[Outcome], x: Tensor) -> Outcome:
    """For each image of `x` (B, 3, H, W) the try whose answer has the smallest squared error: answer and terms."""
    if len(tries) == 1:
        return tries[0]
    answers = [one.steps[-1] for one in tries]
    which = torch.stack([(answer.image - x).square().mean(dim=(1, 2, 3)) for answer in answers]).argmin(dim=0)
    images = torch.arange(len(x), device=which.device)
    terms = {
        name: torch.stack([one.terms[name].expand(len(x)) for one in tries])[which, images]
        for name in tries[0].terms
    }
    return Outcome(tries[0].loss, terms, (Decomposition.choose(answers, which),))
