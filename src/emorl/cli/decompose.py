"""emorl decompose"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, count
from pathlib import Path

import torch
import tyro

from emorl.cli.console import say
from emorl.cli.numbers import check_options
from emorl.data.images import read_pixels
from emorl.errors import UserError
from emorl.evaluation.inference import infer
from emorl.files import check_output, make_directory
from emorl.models.base import Model
from emorl.plots.pictures import save_decomposition
from emorl.runs.run import Run


def decompose_command(
    run: tyro.conf.Positional[str],
    images: tyro.conf.Positional[tuple[Path, ...]],
    out: Path,
    slots: int | None = None,
    steps: int | None = None,
    sample: bool = False,
    tries: int = 1,
    seed: int = 0,
) -> None:
    """Take images apart: a PNG with one panel per slot, and the arrays as .npz, for each.

    Args:
        run: Run directory of a training, or the name of released weights.
        images: Image files of the size the model was trained on.
        out: Folder for the results. Files in it that emorl has not written are never overwritten.
        slots: K, number of slots; as trained if left out.
        steps: I, refinement steps; as configured if left out.
        sample: Sample posteriors instead of taking their means.
        tries: Infer so often and keep, for each image, what reconstructs it best.
        seed: Of the random start of the slots, and of samples.
    """
    if not images:
        raise UserError("Name at least one image: emorl decompose RUN IMAGE... --out DIR")
    check_options(slots=slots, steps=steps, tries=tries, seed=seed)
    targets = [out / name for name in names_for(images)]
    for target in targets:
        for suffix in (".png", ".npz"):
            check_output(target.with_name(target.name + suffix), inputs=images)
    model = Run.open(run).model
    loaded = [open_image(path, model) for path in images]  # all of them first: nothing is half done
    make_directory(out)
    for path, x, target in zip(images, loaded, targets, strict=True):
        found = infer(model, x[None], [seed], means=not sample, tries=tries, num_slots=slots, num_steps=steps)
        save_decomposition(target, x, found.steps[-1])
        say(f"{path} -> {target}.png, {target}.npz")


def names_for(images: Sequence[Path]) -> list[str]:
    """Returns a name for the results of each image: its own without suffix, with a number where that is taken."""
    names: list[str] = []
    for path in images:
        candidates = chain([path.stem], (f"{path.stem}-{number}" for number in count(1)))
        taken = {name.casefold() for name in names}  # some systems do not tell A from a
        names.append(next(name for name in candidates if name.casefold() not in taken))
    return names


def open_image(path: Path, model: Model) -> torch.Tensor:
    """Reads an image that fits `model`, or says why it does not."""
    pixels = read_pixels(path)
    size = model.config.image_size
    if pixels.shape[:2] != (size, size):
        raise UserError(
            f"{path} is {pixels.shape[1]}x{pixels.shape[0]}; this model takes {size}x{size} images."
        )
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255
