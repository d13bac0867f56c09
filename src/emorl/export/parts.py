"""What can be exported of a model: finding slots in images with all refinement, or painting slots.

Each part is a function of tensors alone. What inference draws at random is an input, so an exported model gives the
same answer every time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from emorl.models.base import Model
from emorl.probability import Noise
from emorl.types import Decomposition

Name = Literal["infer", "decode"]


@dataclass(frozen=True)
class Part:
    """A function of a model: its inputs with the shape of one image's, and its outputs."""

    name: Name
    inputs: dict[str, tuple[int, ...]]
    outputs: tuple[str, ...]
    compute: Callable[..., tuple[Tensor, ...]]  # batches of the inputs -> batches of the outputs
    num_slots: int
    num_steps: int | None  # of inference, None if it does not iterate or is not part of this


def part_of(model: Model, name: Name, *, num_slots: int | None, num_steps: int | None) -> Part:
    """Returns a part of a model. Raises UserError for a number of slots or steps that it cannot have."""
    K, I = model.budget(num_slots, num_steps)
    is_inference = name == "infer"
    steps = I if is_inference and model.step_range is not None else None
    return inference(model, K, I, steps) if is_inference else decoding(model, K)


def inference(model: Model, K: int, I: int, steps: int | None) -> Part:
    """Images and noise to masks, components and slots, with the last posterior at its mean as in `decompose`.

    A model that draws once takes `noise` as it draws it; one that draws several times takes all draws behind each
    other, (B, draws, ...).
    """
    size = model.config.image_size
    shapes = noise_shapes(model, K, I)
    assert len(set(shapes)) <= 1, "draws of different shapes cannot be one input"
    inputs: dict[str, tuple[int, ...]] = {"image": (3, size, size)}
    if shapes:
        inputs["noise"] = shapes[0] if len(shapes) == 1 else (len(shapes), *shapes[0])

    def compute(x: Tensor, noise: Tensor | None = None) -> tuple[Tensor, ...]:
        draws = [] if noise is None else [noise] if len(shapes) == 1 else noise.unbind(dim=1)
        drawn = (one.to(dtype_of(model)) for one in draws)
        with torch.no_grad():
            x = x.to(dtype_of(model))
            outcome = model.compute(x, K, I, Noise(lambda like: next(drawn), means=True), trace=False)
        return tensors(outcome.steps[-1])

    return Part("infer", inputs, ("masks", "components", "slots"), compute, K, steps)


def decoding(model: Model, K: int) -> Part:
    """Slots to masks and components."""

    def compute(slots: Tensor) -> tuple[Tensor, ...]:
        with torch.no_grad():
            return tensors(model.decode(slots.to(dtype_of(model))))[:2]

    return Part("decode", {"slots": (K, slot_size(model, K))}, ("masks", "components"), compute, K, None)


def tensors(parts: Decomposition) -> tuple[Tensor, Tensor, Tensor]:
    """A decomposition as what an exported model returns: 32 bits, whatever the model computes in."""
    return parts.masks.float(), parts.components.float(), parts.slots.float()


def dtype_of(model: Model) -> torch.dtype:
    """The kind of numbers that a model computes with."""
    return next(model.parameters()).dtype


def noise_shapes(model: Model, K: int, I: int) -> list[tuple[int, ...]]:
    """Returns the shapes of what inference draws for one image, in the order in which it draws."""
    shapes: list[tuple[int, ...]] = []

    def normal(like: Tensor) -> Tensor:
        shapes.append(tuple(like.shape[1:]))
        return torch.zeros_like(like)

    with torch.no_grad():
        model.compute(blank_image(model), K, I, Noise(normal, means=True), trace=False)
    return shapes


def slot_size(model: Model, K: int) -> int:
    """Returns how many numbers a slot has: models differ in where they say it, so one image is asked."""
    least = 0 if model.step_range is None else model.step_range[0]
    with torch.no_grad():
        outcome = model.compute(
            blank_image(model), K, least, Noise(torch.zeros_like, means=True), trace=False
        )
    return outcome.steps[-1].slots.shape[-1]


def blank_image(model: Model) -> Tensor:
    """One grey image of the size that a model takes."""
    size = model.config.image_size
    return torch.full((1, 3, size, size), 0.5, dtype=dtype_of(model))
