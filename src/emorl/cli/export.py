"""emorl export"""

from __future__ import annotations

from pathlib import Path

import torch
import tyro

from emorl.cli.options import check_options
from emorl.errors import UserError
from emorl.export.export import TOLERANCE, Bits, export
from emorl.export.formats import Format, check_packages
from emorl.export.parts import Name
from emorl.files import check_output
from emorl.runs.run import Run
from emorl.training.console import say
from emorl.version import __version__

EXAMPLES = 3  # pictures that the file is tried with


def export_command(
    model: tyro.conf.Positional[str],
    format: Format,
    out: Path,
    steps: int | None = None,
    slots: int | None = None,
    part: Name = "infer",
    bits: Bits | None = None,
) -> None:
    """Write a model to one file that runs elsewhere, without this package: an ONNX model, or PyTorch's pt2.

    The file takes any number of images at a time. Inference is complete, refinement included; what it draws at random
    is an input, so the answer is always the same. The file is run once, and kept only if it computes what PyTorch does.

    Args:
        model: Run directory of a training, or the name of released weights.
        format: onnx for onnxruntime and others, pt2 for torch.export.load.
        out: The file to write. A file that emorl has not written is not overwritten.
        steps: Of infer: I, refinement steps; as configured if left out.
        slots: K, number of slots; as trained if left out.
        part: infer takes images and gives masks, components and slots; decode takes slots and paints them.
        bits: The file computes in 32 bits, or in 64, which is slower; by default in 64 if 32 are not enough, because
            refinement of some models makes rounding errors visible.
    """
    check_options(steps=steps, slots=slots)
    if part == "decode" and steps is not None:
        raise UserError("--steps are of inference; --part decode has none, so leave them out.")
    check_packages(format)
    opened = Run.open(model)
    check_output(out, inputs=opened.inputs)
    taught = opened.model
    taught.budget(slots, steps)
    say(f"Exporting {opened.name} ({part}) as {format}; this takes a minute or two.")
    found = export(
        taught,
        out,
        format=format,
        part=part,
        num_slots=slots,
        num_steps=steps,
        bits=bits,
        images=pictures_of(opened),
        about={"run": opened.name, "version": __version__, "data": opened.config.data.name},
    )
    for name, shape in found.part.inputs.items():
        print(f"input   {name:<12} (batch, {', '.join(map(str, shape))})")
    print(f"outputs {', '.join(found.part.outputs)}")
    say(
        f"Wrote {out}, {found.size / 1e6:.1f} MB. It differs from PyTorch by {found.difference:.1g} at most, and "
        f"{TOLERANCE:g} are allowed."
    )
    if found.bits == 64:
        say(f"Both computed in 64 bits; PyTorch in 32 bits is {found.rounding:.1g} away, by its rounding.")


def pictures_of(run: Run) -> torch.Tensor | None:
    """A few of the pictures that a model was trained for, or None where they are not at hand."""
    try:
        scenes = run.scenes("test")
        return torch.stack([scenes[index].image for index in range(min(EXAMPLES, len(scenes)))])
    except UserError:
        return None
