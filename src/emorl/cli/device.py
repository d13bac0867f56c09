"""Where commands compute: --device."""

from __future__ import annotations

from typing import Literal

import torch

from emorl.errors import UserError

Device = Literal["auto", "cpu", "cuda"]


def choose_device(device: Device) -> torch.device:
    """The device that was asked for; auto is a GPU if there is one. Raises UserError if it is not there."""
    has_gpu = torch.cuda.is_available()
    if device == "cuda" and not has_gpu:
        raise UserError("There is no CUDA device here; use --device cpu.")
    return torch.device("cuda" if has_gpu and device != "cpu" else "cpu")
