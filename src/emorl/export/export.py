"""export: writes a model to a file, runs the file, and keeps it only if it computes what PyTorch computes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.export.formats import Format, check_packages, encode, largest_difference, reload
from emorl.export.parts import Name, Part, dtype_of, part_of
from emorl.export.trace import trace, traceable
from emorl.files import check_output, make_directory, write_bytes
from emorl.models.base import Model

TOLERANCE = 1e-4  # of masks, colours and slots
BATCHES = (1, 3)  # what is tried; neither is the size of the batch that was traced
NOISE_SEED = 0

Bits = Literal[32, 64]


@dataclass(frozen=True)
class Exported:
    """What was written: the file, its part of the model, its size, the bits it computes with, and how right it is."""

    path: Path
    part: Part
    size: int  # bytes
    bits: Bits
    difference: float  # from PyTorch with as many bits, at most
    rounding: float  # the same from PyTorch in 32 bits


class TooFar(UserError):
    """A file that does not compute what PyTorch does."""


def export(
    model: Model,
    path: str | Path,
    *,
    format: Format,
    part: Name = "infer",
    num_slots: int | None = None,
    num_steps: int | None = None,
    bits: Bits | None = None,
    images: Tensor | None = None,
    about: dict[str, Any] | None = None,
) -> Exported:
    """Writes a model to a file that needs neither this package nor its code.

    "infer" takes `image` (B, 3, H, W) in [0, 1] and, for models that start at random, `noise`, standard normal numbers;
    it returns `masks`, `components` and `slots` as `decompose` does, after all refinement. "decode" takes `slots` and
    returns `masks` and `components`. B may be any number, and all of them have 32 bits. The file is run again, with
    `images` like those that the model knows if given, and is kept only if it differs from PyTorch by less than
    TOLERANCE; else UserError is raised.

    `bits` are those that the file computes with inside, and that PyTorch is given for the comparison. By default 32,
    and 64 if 32 are not enough: the gradient that refinement follows can make rounding errors visible.
    """
    path = Path(path)
    check_packages(format)
    check_output(path)
    budget = {"num_slots": num_slots, "num_steps": num_steps}
    known = about or {}
    try:
        return write(model, path, format, part, bits or 32, images, known, **budget)
    except TooFar as apart:
        if bits is not None:
            raise
        try:
            return write(model, path, format, part, 64, images, known, **budget)
        except UserError as error:
            raise UserError(f"{apart} And in 64 bits: {error}") from None


def write(
    model: Model,
    path: Path,
    format: Format,
    name: Name,
    bits: Bits,
    images: Tensor | None,
    about: dict[str, Any],
    **budget: int | None,
) -> Exported:
    """Writes the file, computing with so many bits. Raises TooFar if it does not agree with PyTorch."""
    own = copy.deepcopy(model).cpu().eval().float()
    exact = copy.deepcopy(own).to(torch.float64) if bits == 64 else own
    part, single = (part_of(one, name, **budget) for one in (exact, own))
    plain = part_of(traceable(exact), name, **budget)
    graph = trace(plain.compute, list(plain.inputs.values()), for_64_bits=bits == 64 and format == "onnx")
    known = {"model": model.title, "part": name, "slots": part.num_slots, "steps": part.num_steps}
    content = encode(graph, plain, format, {**known, "bits": bits, **about})
    examples = [inputs_of(exact, part, count, images) for count in BATCHES]
    difference = rounding = -1.0

    def check(written: Path) -> None:
        nonlocal difference, rounding
        run = reload(written, format, part)
        outputs = [run(*one) for one in examples]
        difference, rounding = (
            max(
                largest_difference(found, by.compute(*one))
                for found, one in zip(outputs, examples, strict=True)
            )
            for by in (part, single)
        )
        if not difference < TOLERANCE:
            raise TooFar(
                f"In {bits} bits, the exported model differs from PyTorch by {difference:.1g}, and {TOLERANCE:g} are "
                "allowed; nothing was written."
            )

    make_directory(path.parent)
    write_bytes(path, content, check=check)
    return Exported(path, part, len(content), bits, difference, rounding)


def inputs_of(model: Model, part: Part, count: int, images: Tensor | None) -> list[Tensor]:
    """What a part is tried with: `images`, or smooth ones, always the same noise, and slots found in those images."""
    generator = torch.Generator().manual_seed(NOISE_SEED)
    if images is None:
        images = smooth_images(model.config.image_size, generator)
    chosen = images[torch.arange(count) % len(images)]
    if part.name == "decode":
        found = model.decompose(chosen.to(dtype_of(model)), num_slots=part.num_slots, seed=NOISE_SEED)
        return [found.slots.float()]
    noise = [
        torch.randn(count, *shape, generator=generator)
        for name, shape in part.inputs.items()
        if name != "image"
    ]
    return [chosen, *noise]


def smooth_images(size: int, generator: torch.Generator) -> Tensor:
    """Three images of blurred colours, for a model whose own pictures are not at hand."""
    coarse = torch.rand(3, 3, 4, 4, generator=generator)
    return torch.nn.functional.interpolate(coarse, size=(size, size), mode="bilinear").clamp(0, 1)
