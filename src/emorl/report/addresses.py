"""Pictures as data: addresses, so that a page needs no other file."""

from __future__ import annotations

import base64
import io

from PIL import Image

LARGE = 120_000  # bytes of a PNG above which WebP takes its place: photographs need some loss


def data_address(image: Image.Image) -> str:
    """An image as a data: address."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG", optimize=True)
    if buffer.tell() <= LARGE:
        return address("image/png", buffer.getvalue())
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=88)
    return address("image/webp", buffer.getvalue())


def address(kind: str, content: bytes) -> str:
    """Content as a data: address."""
    return f"data:{kind};base64,{base64.b64encode(content).decode()}"
