"""Pictures of any kind and size taken apart: decompose() for Python users, take_apart() for the command line.

They are made square for the model, and results are brought back to the square or to the picture's own size.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from emorl.data.base import Array
from emorl.data.fit import Fit, Place, fitted, resized
from emorl.data.given import given_pictures
from emorl.errors import UserError, check_range, check_seed, nearest, no_device
from emorl.evaluation.inference import infer
from emorl.models.base import MOST_TRIES, Model
from emorl.objects import NOBODY, WELL_EXPLAINED, Table, explained_share, moved, object_table, owners
from emorl.panels import shape_within
from emorl.runs.run import Run
from emorl.types import LARGEST_SIDE, Decomposition, array

DEFAULT = "efficient-morl/clevr6-long"  # the released weights that have seen shading, shadows and perspective
LARGEST = 1024  # longer side of results: masks and components of a photograph at full size fill gigabytes
AT_ONCE = 16  # pictures to infer together


def decompose(
    pictures: Any,
    model: Model | Run | str | Path = DEFAULT,
    *,
    fit: Fit | None = None,
    num_slots: int | None = None,
    num_steps: int | None = None,
    sample: bool = False,
    tries: int = 1,
    seed: int | None = 0,
    size: int | None = None,
    device: torch.device | str | None = None,
) -> Decomposition:
    """Takes pictures apart into objects.

    Args:
        pictures: One or a list of: the name of a file, a PIL image, an array or a tensor, uint8 or floats in [0, 1], of
            shape (H, W), (H, W, 3) or (3, H, W), any size. Batches (B, H, W, 3) and (B, 3, H, W) are fine, too.
        model: A model, a run directory, a folder of `save_pretrained`, or the name of released weights. These three are
            opened at each call, so open them once with `emorl.load` if there are many.
        fit: How pictures become square: "crop" cuts the middle out, "pad" adds a margin, "stretch" distorts. As the run
            was trained if left out.
        num_slots: K; as trained if left out.
        num_steps: I, steps of inference; as configured if left out.
        sample: Sample the last posterior instead of taking its mean.
        tries: Infer so often and keep, for each picture, what reconstructs it best.
        seed: Of the random start of the slots, the same for each picture, so that its result depends on no other; None
            for another start at each call.
        size: Side of the masks and components, in pixels; the model's own if left out.
        device: Where to compute, if the model is opened here; the CPU if left out.

    Returns:
        The decomposition, with the pictures as the model has seen them. `objects()` has places in pixels of the
            pictures that were given. Warns where less than half of a picture is explained: then its objects mean
            nothing.
    """
    opened, name, usual = open_model(model, device)
    fit = usual if fit is None else fit
    if fit not in get_args(Fit):
        raise UserError(
            f"fit must say how pictures become square, not {fit!r}{nearest(str(fit), get_args(Fit))}"
        )
    check_range("tries", tries, 1, MOST_TRIES)
    if size is not None:
        check_range("size", size, 1, LARGEST_SIDE)
    opened.budget(num_slots, num_steps)
    seed = int(torch.randint(2**62, ())) if seed is None else check_seed("seed", seed)
    budget = {"num_slots": num_slots, "num_steps": num_steps, "tries": tries, "means": not sample}
    parts = as_squares(opened, given_pictures(pictures), fit, seed, size, budget)
    found = Decomposition.cat(list(parts))
    warn_of_bad(found, name)
    return found


def open_model(model: Any, device: torch.device | str | None) -> tuple[Model, str, Fit]:
    """Returns a model, its name, and how it is used to make pictures square."""
    if isinstance(model, Model):
        if device is not None:
            raise UserError("device is for models that are opened by name; move this one: model.to(device).")
        return model, model.title, "crop"
    run = model if isinstance(model, Run) else Run.open(model)
    try:
        return run.model.to(device or "cpu"), run.name, run.config.data.fit
    except (RuntimeError, AssertionError, TypeError) as error:
        raise no_device(device, error) from None


def as_squares(
    model: Model, pictures: Sequence[Array], fit: Fit, seed: int, size: int | None, options: Any
) -> Iterator[Decomposition]:
    """Yields the decomposition of each picture (H, W, 3), which knows what was seen of it; `size` is its side."""
    for pixels, shown, parts in inferred(model, pictures, fit, seed, **options):
        if size is not None and size != model.config.image_size:  # one by one: large ones fill the memory
            with torch.no_grad():
                parts = model.enlarged(parts, size)
            shown = squares([pixels], size, fit).to(shown.device)
        place = Place(pixels.shape[0], pixels.shape[1], fit)
        seen = torch.tensor([place.square], dtype=torch.float32, device=shown.device)
        yield replace(parts, picture=shown, seen=seen)


def inferred(
    model: Model, pictures: Iterable[Array], fit: Fit, seed: int, **options: Any
) -> Iterator[tuple[Array, Tensor, Decomposition]]:
    """Yields each picture (H, W, 3), the square (1, 3, size, size) that the model sees of it, and what it finds there.

    A picture's result depends on no other. `options` are those of `infer`.
    """
    device, size = model.device, model.config.image_size
    waiting = iter(pictures)
    while some := list(islice(waiting, AT_ONCE)):
        x = squares(some, size, fit).to(device)
        found = infer(model, x, [seed] * len(some), **options).steps[-1]
        for b, pixels in enumerate(some):
            yield pixels, x[b : b + 1], found[b]


def squares(pictures: Sequence[Array], size: int, fit: Fit) -> Tensor:
    """Pictures (H, W, 3) as the model takes them, (B, 3, size, size) in [0, 1]; those of another size with 8 bits."""
    made = []
    for pixels in pictures:
        if pixels.dtype == np.uint8 or pixels.shape[:2] != (size, size):
            eight = pixels if pixels.dtype == np.uint8 else np.round(pixels * 255).astype(np.uint8)
            pixels = fitted(eight, size, fit).astype(np.float32) / 255
        made.append(pixels.transpose(2, 0, 1))
    return torch.from_numpy(np.stack(made))


def warn_of_bad(found: Decomposition, name: str) -> None:
    """Warns if pictures are explained badly."""
    bad = {number: share for number, share in enumerate(found.explained) if share < WELL_EXPLAINED}
    if bad:
        first = ", ".join(f"picture {number}: {share:.0%}" for number, share in list(bad.items())[:3])
        which = f"{len(bad)} of {len(found)} pictures are"
        if len(found) == 1:
            which, first = "The picture is", f"{bad[0]:.0%}"
        warnings.warn(
            f"{which} explained badly by {name} ({first}): such objects mean nothing. Train on pictures of that kind.",
            stacklevel=3,
        )


# At the size of the picture itself, as the command line writes it.


@dataclass(frozen=True)
class TakenApart:
    """One picture and what a model makes of the part of it that it sees."""

    size: tuple[int, int]  # height and width of the picture itself
    place: Place  # of the seen part, in the picture at the size of the results
    picture: Array  # (3, h, w) in [0, 1], the seen part at the size of the results
    parts: Decomposition  # of the seen part at that size; B is 1

    @property
    def explained(self) -> float:
        """How much of the seen part is explained, from 0, no better than one colour, to 1."""
        return explained_share(self.picture, array(self.parts.image[0]))

    @property
    def is_explained(self) -> bool:
        """Whether the objects can be trusted at all."""
        return self.explained >= WELL_EXPLAINED

    @property
    def objects(self) -> Table:
        """The objects, as `object_table` has them, in pixels of the picture itself; shares are of the seen part."""
        table = object_table(array(self.parts.masks[0, :, 0]), self.picture)
        left, top, _, _ = self.place.seen
        down, right = self.size[0] / self.place.height, self.size[1] / self.place.width
        return moved(table, left=left * right, top=top * down, across=right, down=down)

    @property
    def owners(self) -> Array:
        """The slot that owns each pixel of the picture itself, (H, W), NOBODY where none does or none has looked."""
        owned = self.place.on_picture(owners(array(self.parts.masks[0, :, 0])), NOBODY)
        return resized(owned.astype(np.int16), *self.size, smooth=False)


def take_apart(
    model: Model,
    pictures: Iterable[Array],
    *,
    fit: Fit = "crop",
    seed: int = 0,
    largest: int = LARGEST,
    **options: Any,
) -> Iterator[TakenApart]:
    """Takes pictures (H, W, 3), uint8, apart, as `emorl decompose` does; `options` are those of `infer`.

    The results of a picture have its own size, or that with a longer side of `largest` if it is larger.
    """
    for pixels, _, found in inferred(model, pictures, fit, seed, **options):
        yield at_own_size(model, pixels, found, fit, largest)


def at_own_size(model: Model, pixels: Array, parts: Decomposition, fit: Fit, largest: int) -> TakenApart:
    """What a model found on the square made of a picture, as a result of the picture. It may paint it anew."""
    height, width = shape_within(pixels.shape[:2], largest)
    place = Place(height, width, fit)
    with torch.no_grad():
        painted = parts if place.side == model.config.image_size else model.enlarged(parts, place.side)
    restored = replace(
        painted, masks=place.restore(painted.masks), components=place.restore(painted.components)
    )
    left, top, right, bottom = place.seen
    seen = resized(pixels, height, width)[top:bottom, left:right]
    return TakenApart(pixels.shape[:2], place, seen.transpose(2, 0, 1).astype(np.float32) / 255, restored)
