"""Reads image files of several formats as 8-bit RGB arrays; raises Unreadable for those it cannot read.

Every picture is opened here, with a list of allowed formats: Pillow knows others that start programs (EPS:
Ghostscript), and goes by a file's content, not by its name.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError
from PIL.ExifTags import Base as ExifTag

from emorl.data.base import Array
from emorl.errors import Unreadable, UserError
from emorl.files import cause, open_regular

FORMATS = ("PNG", "JPEG", "WEBP", "BMP", "TIFF", "GIF")
SUFFIXES = (".png", ".jpg", ".jpeg", ".webp", ".bmp", ".tif", ".tiff", ".gif")
MOST_BYTES = 2**28  # of a file: what 90 million pixels have without compression
MOST_PIXELS = 89_478_485  # Pillow's own limit, a gigabyte when decoded
BLOCK = 2**20  # pixels to convert at a time

# Pillow also logs what its exceptions say; without a handler Python would print it.
logging.getLogger("PIL").addHandler(logging.NullHandler())


def read_pixels(path: Path) -> Array:
    """Returns an image as (H, W, 3) uint8: upright, the first frame of several, transparency on black."""
    with picture(path) as image:
        return rgb(image)


def read_ids(path: Path) -> Array:
    """Returns a mask file as (H, W) uint8: every colour is an object, black (or palette entry 0) the background."""
    with picture(path) as image:
        is_plain = image.mode in ("1", "L", "P", "I;16", "I;16B", "I")
        values = np.asarray(image) if is_plain else rgb(image)
    rows = max(1, BLOCK // values.shape[1])
    blocks = [slice(top, top + rows) for top in range(0, len(values), rows)]
    found = np.zeros(1, dtype=np.uint32)  # the background has id 0, even if no pixel is black
    for block in blocks:
        found = np.union1d(found, color_numbers(values[block]))
        if len(found) > 256:
            raise UserError(f"{path} has more than 255 different colours; a mask has at most 255 objects.")
    ids = np.empty(values.shape[:2], dtype=np.uint8)
    for block in blocks:
        ids[block] = np.searchsorted(found, color_numbers(values[block]))
    return ids


def color_numbers(values: Array) -> Array:
    """Returns one number for each pixel (H, W) of an image (H, W) or (H, W, 3)."""
    numbers = values.astype(np.uint32)
    return numbers if values.ndim == 2 else numbers @ np.array([65536, 256, 1], dtype=np.uint32)


def check_picture(path: Path) -> tuple[int, int]:
    """Decodes an image cheaply, to see whether the file is complete. Returns width and height when upright."""
    with picture(path) as image:
        if image.format not in ("JPEG", "MPO"):
            ImageOps.exif_transpose(image, in_place=True)
            image.load()  # exif_transpose decodes only images that it turns
            return image.size
        width, height = image.size
        is_turned = image.getexif().get(ExifTag.Orientation) in (5, 6, 7, 8)
        image.draft(None, (1, 1))  # all of the file is read, but an eighth of the pixels computed
        image.load()
        ImageOps.exif_transpose(image, in_place=True)
        return (height, width) if is_turned else (width, height)


@contextmanager
def picture(path: Path) -> Iterator[Image.Image]:
    """Opens an image file, not yet decoded. Errors while it is open are raised as Unreadable."""
    with open_regular(path, largest=MOST_BYTES) as file, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd metadata
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        try:
            with Image.open(file, formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise Image.DecompressionBombError
                if image.mode == "F":
                    raise Unreadable(path, "its pixels are floating-point numbers, not 8 or 16 bits")
                yield image
        except UserError:
            raise
        except Exception as error:  # Pillow's decoders raise all kinds of things for a damaged file
            raise Unreadable(path, reason(error)) from None


def reason(error: Exception) -> str:
    """Returns in words why Pillow could not read a file."""
    match error:
        case UnidentifiedImageError():
            return f"it is not an image ({', '.join(FORMATS)})"
        case Image.DecompressionBombWarning() | Image.DecompressionBombError():
            return f"it has more than {MOST_PIXELS} pixels"
        case OSError(strerror=str()):
            return cause(error)
    return f"it is damaged ({cause(error)})"


def rgb(image: Image.Image) -> Array:
    """Returns (H, W, 3) uint8; converts some rows at a time, which needs less memory."""
    ImageOps.exif_transpose(image, in_place=True)
    is_transparent = image.has_transparency_data
    pixels = np.empty((image.height, image.width, 3), dtype=np.uint8)
    rows = max(1, BLOCK // image.width)
    for top in range(0, image.height, rows):
        part = image.crop((0, top, image.width, min(top + rows, image.height)))
        pixels[top : top + rows] = rgb_part(part, is_transparent=is_transparent)
    return pixels


def rgb_part(part: Image.Image, *, is_transparent: bool) -> Array:
    """Returns some rows of an image as uint8, (h, W, 3), or (h, W, 1) for 16-bit grey; transparency on black."""
    if part.mode.startswith("I"):  # 16 bits; Pillow's own conversion would clip at 255
        return (np.asarray(part).clip(0, 65535) >> 8).astype(np.uint8)[..., None]
    if is_transparent:
        black = Image.new("RGBA", part.size, (0, 0, 0, 255))
        part = Image.alpha_composite(black, part.convert("RGBA"))
    return np.asarray(part.convert("RGB"))
