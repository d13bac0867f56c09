"""decompose(): takes pictures apart as a Python user has them, whatever their kind and size."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import numpy as np
import torch
from torch import Tensor

from emorl.data.base import Array
from emorl.data.fit import Fit, Place, fitted
from emorl.data.given import given_pictures
from emorl.errors import UserError, check_range, check_seed, nearest
from emorl.evaluation.inference import infer
from emorl.evaluation.pictures import AT_ONCE
from emorl.models.base import MOST_TRIES, Model
from emorl.objects import WELL_EXPLAINED
from emorl.runs.run import Run
from emorl.types import LARGEST_SIDE, Decomposition

DEFAULT = "efficient-morl/clevr6-long"  # the released weights that have seen shading, shadows and perspective


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
        pictures that were given. Warns where less than half of a picture is explained: then its objects mean nothing.
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
    parts = taken_apart(opened, given_pictures(pictures), fit, seed, size, budget)
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
        reason = str(error).partition("\n")[0]
        raise UserError(f"There is no device {device!r} here ({reason}); use 'cpu'.") from None


def taken_apart(
    model: Model, pictures: Sequence[Array], fit: Fit, seed: int, size: int | None, options: Any
) -> Iterator[Decomposition]:
    """Yields the decomposition of each picture (H, W, 3)."""
    device, own = next(model.parameters()).device, model.config.image_size
    for start in range(0, len(pictures), AT_ONCE):
        some = pictures[start : start + AT_ONCE]
        x = squares(some, own, fit).to(device)
        found = infer(model, x, [seed] * len(some), **options).steps[-1]
        for b, pixels in enumerate(some):
            parts, shown = found[b], x[b : b + 1]
            if size is not None and size != own:  # one by one: large ones fill the memory
                with torch.no_grad():
                    parts = model.enlarged(parts, size)
                shown = squares([pixels], size, fit).to(device)
            place = Place(pixels.shape[0], pixels.shape[1], fit)
            seen = torch.tensor([place.square], dtype=torch.float32, device=device)
            yield replace(parts, picture=shown, seen=seen)


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
