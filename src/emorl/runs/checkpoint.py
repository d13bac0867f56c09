"""Checkpoints and weights: how they survive a crash, and how files from strangers are read.

Every write goes to a temporary name in the same folder, is flushed to the disk, and is moved into place; the previous
checkpoint stays until the new one has been read back. No pickle is ever loaded. What is read is checked before it is
used: sizes, names, shapes, and that all numbers are finite.
"""

from __future__ import annotations

import io
import os
import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from emorl.errors import UserError, first_line
from emorl.files import open_regular, write_bytes
from emorl.models import build
from emorl.models.base import Model
from emorl.runs.directory import CHECKPOINT, PREVIOUS, WEIGHTS
from emorl.runs.upgrade import upgrade_weights

GROUPS = ("model", "optimizer", "progress", "curriculum")  # of a checkpoint
LARGEST_INDEX = 2**24  # bytes of the pickle in a checkpoint; the tensors are beside it
# What that pickle may name. PyTorch allows more, among it bytearray, which takes any number of bytes.
NAMES = re.compile(r"collections OrderedDict|torch\._utils _rebuild_tensor_v2|torch [A-Z][A-Za-z0-9]*Storage")


def save_checkpoint(
    directory: Path, model: Model, state: Mapping[str, Any], *, check: Callable[[], None] = lambda: None
) -> None:
    """Saves weights for users and, with optimiser state and counters, the checkpoint that `--resume` continues.

    `check` is called right before a file is put in place, and may raise to prevent it.
    """
    weights = weights_of(model)
    buffer = io.BytesIO()
    torch.save({**state, "model": weights}, buffer)
    current, previous = directory / CHECKPOINT, directory / PREVIOUS

    def keep_previous(new: Path) -> None:
        read_checkpoint(new)
        check()
        if current.exists():
            spare = new.with_suffix(".previous.tmp")
            os.link(current, spare)  # a second name, so that there is no moment without a checkpoint
            os.replace(spare, previous)

    check()
    write_bytes(current, buffer.getvalue(), check=keep_previous)
    write_bytes(directory / WEIGHTS, safetensors.torch.save(weights), check=lambda new: check())


def weights_of(model: Model) -> dict[str, Tensor]:
    """Returns every parameter and buffer of a model by its name, on the CPU, as files hold them."""
    return {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}


def load_checkpoint(directory: Path) -> dict[str, Any] | None:
    """Returns the newest intact checkpoint, or None in a directory that has none yet.

    A damaged one is passed over with a warning; if nothing intact is left, that is an error.
    """
    found = [directory / name for name in (CHECKPOINT, PREVIOUS) if (directory / name).exists()]
    for path in found:
        try:
            return read_checkpoint(path)
        except ValueError as error:
            warnings.warn(f"{path} is damaged ({error}); looking for the previous one.", stacklevel=2)
    if found:
        raise UserError(f"No intact checkpoint is left in {directory}. Train again in another folder.")
    return None


def saved_step(directory: Path) -> int | None:
    """Returns the step of the newest intact checkpoint; None if there is none that can be read."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # resuming will tell about a damaged one
        try:
            checkpoint = load_checkpoint(directory)
        except UserError:
            return None
    return None if checkpoint is None else int(checkpoint["progress"]["step"])


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint whose checksums hold and which has all its parts; raises ValueError otherwise."""
    try:
        with open_regular(path) as file:
            check_archive(file)
            checkpoint = torch.load(file, map_location="cpu", weights_only=True)
    except UserError as error:
        raise ValueError(str(error)) from None
    except (zipfile.BadZipFile, pickle.UnpicklingError, OSError, *MALFORMED) as error:
        raise ValueError(first_line(error)) from None
    if not isinstance(checkpoint, dict):
        raise ValueError(f"it holds a {type(checkpoint).__name__}")
    for name in GROUPS:
        if not isinstance(checkpoint.get(name), dict):
            raise ValueError(f"it has no {name}")
    if not all(isinstance(name, str) for name in checkpoint["model"]):
        raise ValueError("its weights have no names")
    step = checkpoint["progress"].get("step")
    if type(step) is not int or step < 0:
        raise ValueError("it does not say after which step it was saved")
    return checkpoint


def check_archive(file: Any) -> None:
    """Raises ValueError unless the zip archive is what torch.save writes: nothing compressed, and every checksum right.

    So it needs no more memory than the file is long.
    """
    size = file.seek(0, os.SEEK_END)
    with zipfile.ZipFile(file) as archive:
        entries = archive.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("it is compressed")
        if sum(entry.file_size for entry in entries) > size:
            raise ValueError("its parts are longer than the file")
        if (broken := archive.testzip()) is not None:
            raise ValueError(f"{broken} fails its checksum")
        for entry in entries:
            if entry.filename.endswith(".pkl"):
                check_index(archive, entry)
    file.seek(0)


def check_index(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> None:
    """Raises ValueError if a pickle names anything but tensors. It is not run for that."""
    if entry.file_size > LARGEST_INDEX:
        raise ValueError(f"{entry.filename} has {entry.file_size} bytes, and {LARGEST_INDEX} are the limit")
    for operation, argument, _ in pickletools.genops(archive.read(entry)):
        is_name = "GLOBAL" in operation.name or operation.name in ("INST", "EXT1", "EXT2", "EXT4")
        if is_name and not (operation.name == "GLOBAL" and NAMES.fullmatch(str(argument))):
            raise ValueError(f"it names {argument or operation.name}, which is no tensor")


def read_weights(path: Path) -> dict[str, Tensor]:
    """Returns the tensors in a .safetensors file; raises UserError if it holds none that can be read."""
    if not path.exists():
        raise UserError(f"{path} does not exist.")
    open_regular(path).close()  # a pipe would never end
    try:
        return safetensors.torch.load_file(path)
    except (SafetensorError, OSError, *MALFORMED) as error:
        raise UserError(f"{path} holds no readable weights ({first_line(error)}).") from None


def build_model(config: Any, weights: Mapping[str, Tensor], *, source: Path) -> Model:
    """Returns the model that `config` describes, with `weights` from the file `source`, ready for inference.

    Raises UserError where they do not fit. They are compared before memory is taken, whatever sizes `config` asks for.
    """
    check_weights(shape_of_model(config), weights, source=source)
    model = build(config)
    load_weights(model, weights, source=source)
    return model.eval()


def load_weights(model: Model, weights: Mapping[str, Tensor], *, source: Path) -> None:
    """Copies `weights` into `model`; raises UserError where they do not fit or are not finite."""
    check_weights(model, weights, source=source)
    model.load_state_dict(scheduled_values(model, weights) | upgrade_weights(weights))


def shape_of_model(config: Any) -> Model:
    """Returns the model without memory for its parameters; raises UserError if there is none of these settings."""
    try:
        with torch.device("meta"):
            return build(config)
    except (ArithmeticError, AssertionError, MemoryError, *MALFORMED) as error:
        raise UserError(f"No model can be built with these settings ({first_line(error)}).") from None


def scheduled_values(model: Model, weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Returns the values of the model's schedules in `weights` of version 0.1, which held the step instead."""
    step = weights.get("kl_ramp.updates")
    return {
        name: model.get_buffer(name) if step is None else torch.tensor(schedule.at(int(step), 1)).double()
        for name, schedule in model.schedules.items()
    }


def check_weights(model: Model, weights: Mapping[str, Tensor], *, source: Path) -> None:
    """Raises UserError unless `weights` have the names, shapes and types of the model's, and are finite."""
    own = model.state_dict()
    known = scheduled_values(model, weights)
    weights = upgrade_weights(weights)
    known |= weights

    def fits(name: str) -> bool:
        given = known.get(name)
        return isinstance(given, Tensor) and (given.shape, given.dtype) == (own[name].shape, own[name].dtype)

    wrong = [name for name in own if not fits(name)] + [name for name in weights if name not in own]
    if wrong:
        raise UserError(
            f"{source} does not fit the model of its config: {', '.join(map(str, wrong[:3]))} differ."
        )
    if broken := [name for name, tensor in weights.items() if not bool(tensor.isfinite().all())]:
        raise UserError(
            f"{source} holds numbers that are not finite, in {broken[0]}: the training diverged, or the file is "
            "damaged."
        )


# What libraries raise for contents that make no sense.
MALFORMED = (RuntimeError, EOFError, LookupError, AttributeError, TypeError, ValueError, NotImplementedError)
