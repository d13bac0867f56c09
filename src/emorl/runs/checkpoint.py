"""Run directories: what is written, how it survives a crash, and how it is found again.

Every write goes to a temporary name in the same folder, is flushed to the disk, and is moved into place; the previous
checkpoint stays until the new one has been read back. No pickle is ever loaded.
"""

from __future__ import annotations

import io
import os
import pickle
import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from emorl.errors import UserError
from emorl.files import write_bytes
from emorl.models import build
from emorl.models.base import Model
from emorl.runs.config import RunConfig
from emorl.runs.directory import CHECKPOINT, CONFIG, PREVIOUS, WEIGHTS
from emorl.runs.upgrade import upgrade_weights


def save_checkpoint(directory: Path, model: Model, state: Mapping[str, Any]) -> None:
    """Saves weights for users and, with optimiser state and counters, the checkpoint that `--resume` continues."""
    weights = {name: tensor.detach().cpu().contiguous() for name, tensor in model.state_dict().items()}
    buffer = io.BytesIO()
    torch.save({**state, "model": weights}, buffer)
    current, previous = directory / CHECKPOINT, directory / PREVIOUS

    def keep_previous(new: Path) -> None:
        read_checkpoint(new)
        if current.exists():
            spare = previous.with_suffix(".tmp")
            spare.unlink(missing_ok=True)
            os.link(current, spare)  # a second name, so that there is no moment without a checkpoint
            os.replace(spare, previous)

    write_bytes(current, buffer.getvalue(), check=keep_previous)
    write_bytes(directory / WEIGHTS, safetensors.torch.save(weights))


def load_checkpoint(directory: Path) -> dict[str, Any] | None:
    """Returns the newest intact checkpoint, or None in a directory that has none yet.

    A damaged one is passed over with a warning; if nothing intact is left, that is an error.
    """
    found = [directory / name for name in (CHECKPOINT, PREVIOUS) if (directory / name).exists()]
    for path in found:
        try:
            checkpoint = read_checkpoint(path)
        except ValueError as error:
            warnings.warn(f"{path} is damaged ({error}); looking for the previous one.", stacklevel=2)
            continue
        return checkpoint
    if found:
        raise UserError(f"No intact checkpoint is left in {directory}. Train again in another folder.")
    return None


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Reads a checkpoint whose checksums hold; raises ValueError otherwise."""
    try:
        with zipfile.ZipFile(path) as archive:
            if (broken := archive.testzip()) is not None:
                raise ValueError(f"{broken} fails its checksum")
        checkpoint: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    except (zipfile.BadZipFile, RuntimeError, EOFError, KeyError, pickle.UnpicklingError, OSError) as error:
        raise ValueError(str(error).splitlines()[0] if str(error) else type(error).__name__) from None
    return checkpoint


def read_weights(path: Path) -> dict[str, Tensor]:
    try:
        return safetensors.torch.load_file(path)
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (SafetensorError, OSError) as error:
        raise UserError(f"{path} holds no readable weights ({error}).") from None


def load_run(directory: Path) -> tuple[Model, RunConfig]:
    """Returns the model of a run directory, with its weights, ready for inference."""
    if not (directory / CONFIG).exists():
        raise UserError(f"{directory} is not a run directory: it has no {CONFIG}.")
    run = RunConfig.read(directory / CONFIG)
    if not (directory / WEIGHTS).exists():
        raise UserError(
            f"{directory} has no {WEIGHTS} yet: its training has not reached the first checkpoint."
        )
    model = build(run.model)
    load_weights(model, read_weights(directory / WEIGHTS), source=directory / WEIGHTS)
    return model.eval(), run


def load_weights(model: Model, weights: Mapping[str, Tensor], *, source: Path) -> None:
    """Copies `weights` into `model`; raises UserError where they do not fit."""
    weights, own = upgrade_weights(weights), model.state_dict()
    wrong = [name for name in own if name not in weights or weights[name].shape != own[name].shape]
    wrong += [name for name in weights if name not in own]
    if wrong:
        raise UserError(f"{source} does not fit the model of its config: {', '.join(wrong[:3])} differ.")
    model.load_state_dict(weights)
