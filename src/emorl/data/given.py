"""Pictures as a Python user has them: names of files, PIL images, arrays and tensors, alone, in lists or in batches."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from emorl.data.base import Array
from emorl.data.images import read_pixels, reason, rgb
from emorl.errors import UserError
from emorl.types import Scene

CHANNELS = (1, 3, 4)  # grey, colours, colours with transparency
SHAPES = "a picture is (H, W), (H, W, 3) or (3, H, W), a batch (B, H, W, 3) or (B, 3, H, W)"
KINDS = "the name of a file, a PIL image, an array or a tensor"


def given_pictures(given: Any) -> list[Array]:
    """Returns every picture as (H, W, 3), with 8 bits or as float32 in [0, 1]. Raises UserError for what is none.

    Takes one picture, a batch of them as an array or tensor, or a list. A picture is the name of a file, a PIL image,
    or uint8 or floats in [0, 1] of shape (H, W), (H, W, 3) or (3, H, W); transparent ones are laid on black.
    """
    if is_one(given):
        found = pictures_of(given, "the picture")
    elif isinstance(given, bytes | bytearray | Mapping) or not isinstance(given, Iterable):
        raise UserError(f"A picture is {KINDS}, or a list of those; not {type(given).__name__}.")
    else:
        found = [single(one, f"picture {number}") for number, one in enumerate(given)]
    if not found:
        raise UserError("There are no pictures; at least one is needed.")
    return found


def is_one(given: Any) -> bool:
    """Whether something is one picture or an array of them, and not a list."""
    kinds = (str, os.PathLike, Image.Image, np.ndarray, Tensor, Scene)
    return isinstance(given, kinds) or hasattr(given, "__array__")


def single(given: Any, name: str) -> Array:
    """Returns one picture of a list. Raises UserError with its `name` if it is none, or several."""
    if not is_one(given):
        raise UserError(f"{name} is {reprlib.repr(given)}; a picture is {KINDS}.")
    found = pictures_of(given, name)
    if len(found) != 1:
        raise UserError(f"{name} is a batch of {len(found)}; a list holds single pictures.")
    return found[0]


def pictures_of(given: Any, name: str) -> list[Array]:
    """Returns the pictures in a file, a PIL image, an array, a tensor or a scene."""
    match given:
        case str() | os.PathLike():
            return [read_file(given)]
        case Image.Image():
            return [read_image(given, name)]
        case Scene():
            return from_array(plain(given.image), name, channels_first=True)
        case Tensor():
            return from_array(plain(given), name, channels_first=True)
    try:
        values = np.asarray(given)
    except (TypeError, ValueError) as error:
        raise UserError(f"{name} is no array of pixels: {error}.") from None
    return from_array(values, name, channels_first=False)


def plain(t: Tensor) -> Array:
    """A tensor as numpy has it; numpy knows no bfloat16."""
    t = t.detach().cpu()
    found: Array = (t.float() if t.dtype == torch.bfloat16 else t).numpy()
    return found


def read_file(given: Any) -> Array:
    """Returns the picture in a file."""
    path = Path(os.fsdecode(given))
    if path.is_dir():
        raise UserError(
            f"{path} is a folder; list its pictures, as in sorted(Path({str(path)!r}).glob('*.jpg'))."
        )
    return read_pixels(path)


def read_image(image: Image.Image, name: str) -> Array:
    """Returns the pixels of a PIL image, which stays as it is."""
    if image.mode == "F":
        raise UserError(f"{name} has floating-point pixels: give them as an array in [0, 1].")
    if 0 in image.size:
        raise UserError(f"{name} has no pixels: it is {image.width} x {image.height}.")
    try:
        return rgb(image.copy())
    except Exception as error:  # Pillow's decoders raise all kinds of things for a damaged file
        raise UserError(f"{name} cannot be read: {reason(error)}.") from None


def from_array(values: Array, name: str, *, channels_first: bool) -> list[Array]:
    """Returns the pictures in an array of one or of a batch; where both layouts are possible, one is preferred."""
    check_values(values, name)
    if 0 in values.shape:
        raise UserError(f"{name} has no pixels: its shape is {values.shape}.")
    if values.ndim == 2:
        values = values[..., None]
    if values.ndim not in (3, 4):
        raise UserError(f"{name} has shape {values.shape}; {SHAPES}.")
    axes = [axis for axis in ((-3, -1) if channels_first else (-1, -3)) if values.shape[axis] in CHANNELS]
    if not axes:
        raise UserError(f"{name} has shape {values.shape}; {SHAPES}. Grey ones in a batch are (B, H, W, 1).")
    batch = np.moveaxis(values, axes[0], -1).reshape(-1, *np.moveaxis(values, axes[0], -1).shape[-3:])
    return [in_colour(one) for one in batch]


def check_values(values: Array, name: str) -> None:
    """Raises UserError unless pixels are uint8, or floats in [0, 1]."""
    if values.dtype == np.uint8:
        return
    if not np.issubdtype(values.dtype, np.floating):
        raise UserError(f"{name} holds {values.dtype}; pixels are uint8 from 0 to 255, or floats in [0, 1].")
    if not np.isfinite(values).all():
        raise UserError(f"{name} holds numbers that are not finite; pixels are floats in [0, 1].")
    if values.size and (values.min() < 0 or values.max() > 1):
        raise UserError(
            f"{name} holds floats between {values.min():g} and {values.max():g}; they must be in [0, 1]. Divide by 255 "
            "what goes from 0 to 255."
        )


def in_colour(picture: Array) -> Array:
    """Returns (H, W, 3) of a picture (H, W, 1), (H, W, 3) or (H, W, 4), which is laid on black."""
    is_8_bit = picture.dtype == np.uint8
    picture = picture if is_8_bit else picture.astype(np.float32)
    if picture.shape[-1] == 1:
        picture = picture.repeat(3, axis=-1)
    if picture.shape[-1] == 4 and is_8_bit:
        return np.round(picture[..., :3] * (picture[..., 3:] / 255)).astype(np.uint8)
    return picture if picture.shape[-1] == 3 else picture[..., :3] * picture[..., 3:]
