"""What a dataset yields, what a model yields, and what one pass yields: the three types every part shares.

Shapes: B images, K slots of size D, H x W pixels, at most M objects in a scene.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class Scene:
    """An image and what is known about it. Leading batch dimensions are allowed on every field."""

    image: Tensor  # (..., 3, H, W) in [0, 1]
    segmentation: Tensor  # (..., H, W) integer ids of visible objects; 0 is background
    # name -> (..., M) or (..., M, n); row m describes object m + 1, NaN where absent
    factors: Mapping[str, Tensor]
    segmentation_full: Tensor | None = None  # (..., H', W') of the same view, larger: CLEVR is judged there

    @staticmethod
    def stack(scenes: Sequence[Scene]) -> Scene:
        """Makes a batch of single scenes."""
        full = [scene.segmentation_full for scene in scenes if scene.segmentation_full is not None]
        return Scene(
            torch.stack([scene.image for scene in scenes]),
            torch.stack([scene.segmentation for scene in scenes]),
            {name: torch.stack([scene.factors[name] for scene in scenes]) for name in scenes[0].factors},
            torch.stack(full) if full else None,
        )

    def to(self, device: torch.device) -> Scene:
        """The same on another device."""
        factors = {name: factor.to(device) for name, factor in self.factors.items()}
        full = None if self.segmentation_full is None else self.segmentation_full.to(device)
        return Scene(self.image.to(device), self.segmentation.to(device), factors, full)


@dataclass(frozen=True)
class Decomposition:
    """An image explained by K slots."""

    masks: Tensor  # (B, K, 1, H, W), π in the paper: non-negative, sums to one over K
    components: Tensor  # (B, K, 3, H, W), y in the paper, in [0, 1]
    slots: Tensor  # (B, K, D), the representation: posterior means, or slots of a deterministic model
    # (B, K, 1, h, w), α in the paper at the encoder's resolution, for figures
    attention: Tensor | None = None

    @property
    def image(self) -> Tensor:
        """The reconstruction Σ_k π_k y_k, (B, 3, H, W)."""
        return (self.masks * self.components).sum(dim=1)

    @property
    def segmentation(self) -> Tensor:
        """The slot that owns each pixel, argmax_k π_k, (B, H, W)."""
        return self.masks.argmax(dim=1).squeeze(1)

    def segmentation_at(self, size: int) -> Tensor:
        """The same at another size, of bicubically enlarged masks (Difference 32), (B, size, size)."""
        masks = F.interpolate(self.masks.squeeze(2), size=(size, size), mode="bicubic", antialias=True)
        return masks.argmax(dim=1)

    def resized(self, size: int) -> Decomposition:
        """The same with masks and components of another size, interpolated; masks still sum to one."""

        def resize(t: Tensor) -> Tensor:
            flat: Tensor = F.interpolate(t.flatten(0, 1), size=(size, size), mode="bilinear", antialias=True)
            return flat.reshape(*t.shape[:-2], size, size)

        return replace(self, masks=resize(self.masks), components=resize(self.components))

    @staticmethod
    def choose(candidates: Sequence[Decomposition], which: Tensor) -> Decomposition:
        """Returns image b as candidate `which[b]` explains it."""

        def pick(*tensors: Tensor) -> Tensor:
            return torch.stack(tensors)[which, torch.arange(len(which), device=which.device)]

        attention = [c.attention for c in candidates if c.attention is not None]
        return Decomposition(
            pick(*(c.masks for c in candidates)),
            pick(*(c.components for c in candidates)),
            pick(*(c.slots for c in candidates)),
            pick(*attention) if attention else None,
        )

    def detach(self) -> Decomposition:
        """The same without a graph."""
        attention = None if self.attention is None else self.attention.detach()
        return replace(
            self,
            masks=self.masks.detach(),
            components=self.components.detach(),
            slots=self.slots.detach(),
            attention=attention,
        )


@dataclass(frozen=True)
class Outcome:
    """What one pass over a batch produced."""

    loss: Tensor  # scalar, to be minimised
    # Detached, one value per image (B,) or one for all; logged and averaged without knowing what they are.
    terms: Mapping[str, Tensor]
    steps: tuple[Decomposition, ...]  # every decoding, in order; the last one is the answer
