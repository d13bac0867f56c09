"""Pictures that a visitor drops onto the page: bytes that may be anything, read with the limits they deserve."""

from __future__ import annotations

import io
import warnings

from PIL import Image

from emorl.data.base import Array
from emorl.data.images import FORMATS, reason, rgb
from emorl.errors import UserError

MOST_BYTES = 8 * 2**20
MOST_PIXELS = 16 * 10**6  # checked before anything is decoded


def read_upload(content: bytes) -> Array:
    """Returns a picture as (H, W, 3) uint8. Raises UserError for what is too large, damaged or no picture."""
    if len(content) > MOST_BYTES:
        raise UserError(f"The picture has {len(content)} bytes; {MOST_BYTES} are the limit.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about odd metadata; pixels are counted below
        try:
            with Image.open(io.BytesIO(content), formats=FORMATS) as image:
                if image.width * image.height > MOST_PIXELS:
                    raise UserError(
                        f"The picture has {image.width} x {image.height} pixels; {MOST_PIXELS} are the limit."
                    )
                if image.mode == "F":
                    raise UserError("The picture's pixels are floating-point numbers, not 8 or 16 bits.")
                return rgb(image)
        except UserError:
            raise
        except Exception as error:  # Pillow's decoders raise all kinds of things for a damaged file
            raise UserError(f"This picture cannot be read: {reason(error)}.") from None
