"""Model: the contract behind which training, evaluation, reports and the explorer see every system alike."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from emorl.errors import UserError
from emorl.nn.decoder import SpatialBroadcastDecoder
from emorl.probability import posterior_means
from emorl.types import Decomposition, Outcome


class Model(nn.Module, ABC):
    """Explains images by K slots. Training, evaluation, reports and the explorer know nothing more."""

    Config: ClassVar[type]  # the frozen dataclass that `build` turns into this model
    config: Any  # an instance of it; has at least `image_size` and `num_slots`
    decoder: SpatialBroadcastDecoder  # of slots

    @abstractmethod
    def forward(
        self, x: Tensor, *, num_slots: int | None = None, num_steps: int | None = None, trace: bool = False
    ) -> Outcome:
        """Infers slots for `x` (B, 3, H, W) and scores them.

        `None` means "as configured". A model raises UserError for a budget it cannot honour, e.g. Slot MLP asked for
        another number of slots. With `trace`, intermediate beliefs are decoded into `steps` as well, at extra cost.
        """

    @abstractmethod
    def decode(self, slots: Tensor) -> Decomposition:
        """Renders `slots` (B, K, D). Traversals, activeness and the explorer's sliders call this."""

    def adapt(self, terms: Mapping[str, Tensor]) -> None:
        """Changes non-gradient state after an optimiser step; `terms` are means over the global batch."""

    def is_fully_used(self, num_steps: int | None) -> bool:
        """Whether every parameter gets a gradient from a pass with this budget; data parallelism must know."""
        return True

    def compile_parts(self) -> None:
        """Compiles what a training step spends its time in: a minute at first, and a little less for every step."""
        encoder, decoder = getattr(self, "encoder", None), self.decoder
        if isinstance(encoder, nn.Module):
            encoder.compile(dynamic=False)
        decoder.render = torch.compile(decoder.render, dynamic=False)  # type: ignore[method-assign]

    def infer(
        self, x: Tensor, *, num_slots: int | None = None, num_steps: int | None = None, trace: bool = False
    ) -> Outcome:
        """`forward` without training: no graph survives the call."""
        with torch.no_grad():  # not inference_mode: refinement differentiates at test time
            outcome: Outcome = self(x, num_slots=num_slots, num_steps=num_steps, trace=trace)
        return Outcome(outcome.loss.detach(), outcome.terms, tuple(step.detach() for step in outcome.steps))

    def decompose(
        self,
        x: Tensor,
        *,
        num_slots: int | None = None,
        num_steps: int | None = None,
        sample: bool = False,
        tries: int = 1,
    ) -> Decomposition:
        """Takes images `x` (B, 3, H, W), floats in [0, 1], apart into slots.

        Posteriors are taken at their means, so that `decode` of the slots is this very decomposition (but for the
        masks of MONet); with `sample` they are sampled, as in training and in the paper's scores. Slots start at
        random, and once in a while two of them go for one object: of several `tries` each image gets the one with the
        smallest squared error.
        """
        if not x.is_floating_point() or (x.numel() and not (x.amin() >= 0 and x.amax() <= 1)):
            raise UserError(
                f"Images are floats in [0, 1]; got {x.dtype} between {x.amin():g} and {x.amax():g}. "
                "Divide 8-bit images by 255."
            )
        tries = budget(tries, 1, minimum=1, name="The number of tries")
        with nullcontext() if sample else posterior_means():
            found = [self.infer(x, num_slots=num_slots, num_steps=num_steps) for _ in range(tries)]
        return best_of(found, x).steps[-1]

    def check_images(self, x: Tensor) -> None:
        """Raises UserError unless `x` is a batch of images of the size this model was built for."""
        size = self.config.image_size
        if x.ndim != 4 or tuple(x.shape[1:]) != (3, size, size):
            raise UserError(f"This model takes images of shape (B, 3, {size}, {size}); got {tuple(x.shape)}.")


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


def budget(value: int | None, configured: int, *, minimum: int, name: str) -> int:
    """Returns `value`, or `configured` for None; raises UserError below `minimum`."""
    chosen = configured if value is None else value
    if chosen < minimum:
        raise UserError(f"{name} must be at least {minimum}, not {chosen}.")
    return chosen
