"""Image files as 8-bit RGB arrays, whatever they are inside; what cannot be read is one clear error."""

from __future__ import annotations

import warnings
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from emorl.data.base import Array
from emorl.errors import UserError


def read_pixels(path: Path) -> Array:
    """Returns an image as (H, W, 3) uint8: upright, the first frame of several, transparency on black."""
    with opened(path) as image:
        try:
            return rgb(image)
        except Exception as error:  # Pillow's decoders raise all kinds of things for a damaged file
            raise UserError(f"Cannot read {path}: {reason(error)}.") from None


def read_ids(path: Path) -> Array:
    """Returns a mask file as (H, W) uint8: every colour is an object, black (or palette entry 0) the background."""
    with opened(path) as image:
        try:
            values = np.asarray(image) if image.mode in ("1", "L", "P", "I;16", "I") else rgb(image)
        except Exception as error:
            raise UserError(f"Cannot read {path}: {reason(error)}.") from None
    flat = values.reshape(-1, 1 if values.ndim == 2 else 3).astype(np.int64) @ (
        [1] if values.ndim == 2 else [65536, 256, 1]
    )
    found, ids = np.unique(np.append(flat, 0), return_inverse=True)  # 0 is there, and comes first
    if len(found) > 256:
        raise UserError(f"{path} has {len(found) - 1} different colours; a mask has at most 255 objects.")
    return ids[:-1].reshape(values.shape[:2]).astype(np.uint8)


def opened(path: Path) -> Image.Image:
    """Opens an image file without decoding it. What is too large, or not a file, is refused before it costs memory."""
    try:
        if path.exists() and not (path.is_file() or path.is_dir()):  # a pipe would wait for ever
            raise UserError(f"Cannot read {path}: it is not a file.")
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            return Image.open(path)
    except (Image.DecompressionBombWarning, Image.DecompressionBombError):
        raise UserError(f"Cannot read {path}: it has more than {Image.MAX_IMAGE_PIXELS} pixels.") from None
    except UserError:
        raise
    except Exception as error:
        raise UserError(f"Cannot read {path}: {reason(error)}.") from None


def reason(error: Exception) -> str:
    if isinstance(error, UnidentifiedImageError):
        return "it is not an image"
    return getattr(error, "strerror", None) or f"it is damaged ({str(error) or type(error).__name__})"


def rgb(image: Image.Image) -> Array:
    upright = ImageOps.exif_transpose(image)
    if upright.mode.startswith("I"):  # 16 bits; Pillow's own conversion would clip at 255
        return np.repeat(
            (np.asarray(upright).astype(np.int64).clip(0, 65535) >> 8)[..., None], 3, axis=2
        ).astype(np.uint8)
    if upright.has_transparency_data:
        transparent = upright.convert("RGBA")
        black = Image.new("RGBA", transparent.size, (0, 0, 0, 255))
        upright = Image.alpha_composite(black, transparent)
    return np.asarray(upright.convert("RGB"))


def fit(pixels: Array, size: int, *, smooth: bool = True) -> Array:
    """Cuts the largest square out of the middle and resizes it; `smooth` is for images, not for ids."""
    height, width = pixels.shape[:2]
    side = min(height, width)
    top, left = (height - side) // 2, (width - side) // 2
    square = Image.fromarray(np.ascontiguousarray(pixels[top : top + side, left : left + side]))
    method = Image.Resampling.BICUBIC if smooth else Image.Resampling.NEAREST
    return np.asarray(square.resize((size, size), method))
