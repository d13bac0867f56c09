"""What a dataset yields, what a model yields, and what one pass yields: the three types every part shares.

Shapes: B images, K slots of size D, H x W pixels, at most M objects in a scene.
"""

from __future__ import annotations

import base64
import io
import reprlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, SupportsIndex

import torch
import torch.nn.functional as F
from PIL.Image import Image as PILImage
from torch import Tensor

from emorl.errors import UserError, check_range, is_whole, no_device
from emorl.objects import Array, as_frame, batch_table, explained_share
from emorl.panels import picture_row, pictures_apart

Index = SupportsIndex | slice | Sequence[int] | Array | Tensor  # which images of a batch

SHOWN = 8  # pictures that a notebook shows
MOST_SHOWN = 1000
LARGEST_SIDE = 4096  # of a picture, in pixels
COLOUR_SPREAD = 0.1  # how far a pixel's colour may well be from that of its slot; colours reach from 0 to 1
Progress = Callable[[int, int], None]  # is told how many of how many are done


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
    """A batch of images explained by K slots. `found[i]` is image i alone, and `len(found)` their number."""

    masks: Tensor  # (B, K, 1, H, W), π in the paper: non-negative, sums to one over K
    components: Tensor  # (B, K, 3, H, W), y in the paper, in [0, 1]
    slots: Tensor  # (B, K, D), the representation: posterior means, or slots of a deterministic model
    # (B, K, 1, h, w), α in the paper at the encoder's resolution, for figures
    attention: Tensor | None = None
    picture: Tensor | None = None  # (B, 3, H, W), what was taken apart, if `decompose` has made this
    # (B, 4), left, top, right and bottom of the square that was taken apart, in pixels of the picture it was cut from
    seen: Tensor | None = None

    @property
    def image(self) -> Tensor:
        """The reconstruction Σ_k π_k y_k, (B, 3, H, W)."""
        return (self.masks * self.components).sum(dim=1)

    @property
    def segmentation(self) -> Tensor:
        """The slot that owns each pixel, argmax_k π_k, (B, H, W)."""
        return self.masks.argmax(dim=1).squeeze(1)

    def segmentation_of(self, pictures: Tensor) -> Tensor:
        """The slot that explains each pixel of `pictures` (B, 3, H, W) best, argmax_k π_k N(x; y_k, σ²), (B, H, W).

        Masks say which slot a pixel probably belongs to before its colour is seen, this says it afterwards: outlines
        become exact wherever an object differs in colour from what is behind it.
        """
        colours_fit = (pictures.unsqueeze(1) - self.components).square().sum(dim=2) / (-2 * COLOUR_SPREAD**2)
        return (self.masks.squeeze(2).clamp_min(1e-8).log() + colours_fit).argmax(dim=1)

    @property
    def explained(self) -> list[float]:
        """How much of each picture is explained: 1 is all, 0 no more than one colour would.

        Below one half, the objects mean nothing. Raises UserError where the pictures are not known.
        """
        if self.picture is None:
            raise UserError("This decomposition does not know its pictures: `decompose` makes one that does.")
        pairs = zip(array(self.picture), array(self.image), strict=True)
        return [explained_share(picture, rebuilt) for picture, rebuilt in pairs]

    def __len__(self) -> int:
        return len(self.masks)

    def __iter__(self) -> Iterator[Decomposition]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, index: Index) -> Decomposition:
        """Some images: those of a number, a slice, a list of numbers or a boolean mask. All shapes keep their B."""
        if is_whole(index):
            number = int(index)  # type: ignore[arg-type]
            if not -len(self) <= number < len(self):
                raise IndexError(f"image {number} of {len(self)}")
            index = slice(number % len(self), number % len(self) + 1)
        try:
            which = index if isinstance(index, slice) else torch.as_tensor(index, device=self.masks.device)
            if isinstance(which, Tensor) and which.ndim != 1:
                raise ValueError
            return self.each(lambda t: t[which])
        except (TypeError, ValueError, RuntimeError, IndexError):
            raise UserError(
                f"Images are chosen by a number, a slice or a list of numbers below {len(self)}, "
                f"not {reprlib.repr(index)}."
            ) from None

    def __repr__(self) -> str:
        """Sizes alone: the numbers would fill pages."""
        B, K, _, H, W = self.masks.shape
        images = "1 image" if B == 1 else f"{B} images"
        return f"Decomposition({images}, {K} slots of {self.slots.shape[-1]} numbers, {H} x {W} pixels)"

    def _repr_html_(self) -> str:
        """What a notebook shows: the first pictures and their slots."""
        if not len(self):
            return f"<p>{self!r}</p>"
        buffer = io.BytesIO()
        self.plot().save(buffer, "PNG")
        shown = base64.b64encode(buffer.getvalue()).decode()
        more = f", of which the first {SHOWN} are shown" if len(self) > SHOWN else ""
        return f'<p>{self!r}{more}</p><img alt="{self!r}" src="data:image/png;base64,{shown}">'

    def plot(self, *, images: int = SHOWN, largest: int = 128) -> PILImage:
        """The first `images` as one picture, a row for each: itself, its reconstruction, the slot that owns each pixel,
        and each slot alone. Panels have sides of at most `largest` pixels. A notebook shows it; `.save("x.png")`
        writes it.
        """
        check_range("images", images, 1, MOST_SHOWN)
        check_range("largest", largest, 1, LARGEST_SIDE)
        if not len(self):
            raise UserError("There are no images to show in this decomposition.")
        pictures = self.image if self.picture is None else self.picture
        some = zip(pictures[:images], self.masks[:images], self.components[:images], strict=True)
        return pictures_apart([picture_row(*one) for one in some], largest=largest).drawn()

    def objects(self) -> Any:
        """A table of all objects, a row for each slot that owns at least 1 % of its picture.

        It is a pandas DataFrame, or a dict of arrays where pandas is not installed. Columns:

        - image, slot: their numbers.
        - area, share: pixels that the slot owns, and their share of the picture.
        - left, top, right, bottom: the smallest box around them; right and bottom are the first pixels outside.
        - x, y: their centre.
        - red, green, blue: mean colour there, from 0 to 1, of the picture, or of the reconstruction if that is unknown.
        - background: whether the slot owns more than half of the picture's edge: a guess, from its place alone.
        - latent_0, latent_1, ...: the numbers of the slot.

        Places and areas are in pixels of the file or array that `emorl.decompose` was given, else of the masks.
        """
        pictures = self.image if self.picture is None else self.picture
        seen = None if self.seen is None else array(self.seen)
        return as_frame(batch_table(array(self.masks.squeeze(2)), array(pictures), array(self.slots), seen))

    def numpy(self) -> dict[str, Array]:
        """Everything as arrays: masks (B, K, H, W), components (B, K, 3, H, W), slots (B, K, D), segmentation
        (B, H, W), reconstruction (B, 3, H, W), and the picture (B, 3, H, W) if it is known.
        """
        found = {
            "masks": array(self.masks.squeeze(2)),
            "components": array(self.components),
            "slots": array(self.slots),
            "segmentation": self.segmentation.cpu().numpy(),
            "reconstruction": array(self.image),
        }
        return found if self.picture is None else found | {"picture": array(self.picture)}

    def segmentation_at(self, size: int) -> Tensor:
        """The same at another size, of bicubically enlarged masks (Difference 32), (B, size, size)."""
        masks = F.interpolate(self.masks.squeeze(2), size=(size, size), mode="bicubic", antialias=True)
        return masks.argmax(dim=1)

    def resized(self, size: int) -> Decomposition:
        """The same with masks, components and picture of another size, interpolated; masks still sum to one."""

        def resize(t: Tensor) -> Tensor:
            flat: Tensor = F.interpolate(t.flatten(0, -4), size=(size, size), mode="bilinear", antialias=True)
            return flat.reshape(*t.shape[:-2], size, size)

        picture = None if self.picture is None else resize(self.picture)
        return replace(self, masks=resize(self.masks), components=resize(self.components), picture=picture)

    @staticmethod
    def choose(candidates: Sequence[Decomposition], which: Tensor) -> Decomposition:
        """Returns image b as candidate `which[b]` explains it."""
        return joined(
            candidates,
            lambda tensors: torch.stack(tensors)[which, torch.arange(len(which), device=which.device)],
        )

    @staticmethod
    def cat(batches: Sequence[Decomposition]) -> Decomposition:
        """Makes one batch of several."""
        return joined(batches, torch.cat)

    def to(self, device: torch.device | str) -> Decomposition:
        """The same on another device. Raises UserError if it is not there."""
        try:
            place = torch.device(device)
            return self.each(lambda t: t.to(place))
        except (RuntimeError, AssertionError, TypeError) as error:
            raise no_device(device, error) from None

    def detach(self) -> Decomposition:
        """The same without a graph."""
        return self.each(Tensor.detach)

    def each(self, change: Callable[[Tensor], Tensor]) -> Decomposition:
        """The same with every tensor changed."""
        tensors: dict[str, Any] = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(self, **{name: change(t) for name, t in tensors.items() if t is not None})


def joined(parts: Sequence[Decomposition], join: Callable[[list[Tensor]], Tensor]) -> Decomposition:
    """One decomposition of several: `join` makes one tensor of those with the same name; None if one lacks it."""
    tensors = {field.name: [getattr(part, field.name) for part in parts] for field in fields(Decomposition)}
    whole: dict[str, Any] = {
        name: None if any(t is None for t in of) else join(of) for name, of in tensors.items()
    }
    return Decomposition(**whole)


def silent(done: int, total: int) -> None:
    """Progress that nobody watches."""


def array(t: Tensor) -> Array:
    """A tensor of floats as numpy has it."""
    found: Array = t.detach().float().cpu().numpy()
    return found


@dataclass(frozen=True)
class Outcome:
    """What one pass over a batch produced."""

    loss: Tensor  # scalar, to be minimised
    # Detached, one value per image (B,) or one for all; logged and averaged without knowing what they are.
    terms: Mapping[str, Tensor]
    steps: tuple[Decomposition, ...]  # every decoding, in order; the last one is the answer
