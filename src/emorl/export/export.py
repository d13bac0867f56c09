"""export: writes a model to a file, runs the file, and keeps it only if it computes what PyTorch computes."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from pathlib import Path
from typing import Any

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


@dataclass(frozen=True)
class Exported:
    """What was written: the file, its part of the model, its size, and how far it is from PyTorch at most."""

    path: Path
    part: Part
    size: int  # bytes
    difference: float


def export(
    model: Model,
    path: str | Path,
    *,
    format: Format,
    part: Name = "infer",
    num_slots: int | None = None,
    num_steps: int | None = None,
    double: bool = False,
    images: Tensor | None = None,
    about: dict[str, Any] | None = None,
) -> Exported:
    """Writes a model to a file that needs neither this package nor its code.

    "infer" takes `image` (B, 3, H, W) in [0, 1] and, for models that start at random, `noise`, standard normal numbers;
    it returns `masks`, `components` and `slots` as `decompose` does, after all refinement. "decode" takes `slots` and
    returns `masks` and `components`. B may be any number. All of them have 32 bits; with `double` the file computes in
    64 inside, because the gradient that refinement follows can make rounding errors visible. The file is run again,
    with `images` like those that the model knows if given, and is kept only if it differs from PyTorch, computing in as
    many bits, by less than TOLERANCE; else UserError is raised.
    """
    path = Path(path)
    check_packages(format)
    check_output(path)
    dtype = torch.float64 if double else torch.float32
    model = copy.deepcopy(model).cpu().eval().to(dtype)
    own = part_of(model, part, num_slots=num_slots, num_steps=num_steps)
    copied = part_of(traceable(model), part, num_slots=num_slots, num_steps=num_steps)
    graph = trace(copied.compute, list(copied.inputs.values()), for_64_bits=double and format == "onnx")
    known = {"model": model.title, "part": part, "slots": own.num_slots, "steps": own.num_steps}
    content = encode(graph, copied, format, {**known, **(about or {})})
    found = -1.0

    def check(written: Path) -> None:
        nonlocal found
        run = reload(written, format, own)
        examples = [inputs_of(model, own, count, images) for count in BATCHES]
        found = max(largest_difference(run(*one), own.compute(*one)) for one in examples)
        if not found < TOLERANCE:
            raise UserError(
                f"The exported model differs from PyTorch by {found:.1g}, and {TOLERANCE:g} are allowed; nothing was "
                "written. If rounding is the cause, --double or fewer --steps help."
            )

    make_directory(path.parent)
    write_bytes(path, content, check=check)
    return Exported(path, own, len(content), found)


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
