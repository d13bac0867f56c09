"""Files in the published layouts, written as their authors did."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import numpy as np

from emorl.data.layouts import LAYOUTS
from emorl.data.tfrecord import masked_crc


def varint(value: int) -> bytes:
    out = b""
    while value > 127:
        out, value = out + bytes([value & 127 | 128]), value >> 7
    return out + bytes([value])


def message(number: int, content: bytes) -> bytes:
    return bytes([number << 3 | 2]) + varint(len(content)) + content


def encode(features: dict[str, np.ndarray]) -> bytes:
    """A tf.train.Example as DeepMind wrote it: floats packed, bytes one by one."""
    entries = b""
    for name, values in features.items():
        if values.dtype == np.uint8:
            triples = np.empty((values.size, 3), dtype=np.uint8)
            triples[:] = 0x0A, 1, 0
            triples[:, 2] = values.reshape(-1)
            value = message(1, triples.tobytes())
        else:
            value = message(2, message(1, values.astype("<f4").tobytes()))
        entries += message(1, message(1, name.encode()) + message(2, value))
    return message(1, entries)


def framed(payload: bytes) -> bytes:
    length = struct.pack("<Q", len(payload))
    return length + struct.pack("<I", masked_crc(length)) + payload + struct.pack("<I", masked_crc(payload))


def write(path: Path, payloads: list[bytes], *, compress: bool = True) -> Path:
    content = b"".join(map(framed, payloads))
    path.write_bytes(gzip.compress(content) if compress else content)
    return path


def published(scene: dict[str, np.ndarray], name: str) -> dict[str, np.ndarray]:
    """Features of a scene in the layout of the published set `name`; entity 0 is the background."""
    layout = LAYOUTS[name]
    masks = (np.arange(layout.entities)[:, None, None] == scene["segmentation"]).astype(np.uint8) * 255
    masks = masks[..., None]
    image = scene["image"][..., : layout.image[2]]
    features = {"image": image, "mask": masks.transpose(1, 2, 0, 3) if layout.masks_last else masks}
    for factor in layout.factors:
        values = np.nan_to_num(scene[factor])
        background = np.ones_like(values[:1]) if factor == "visibility" else np.zeros_like(values[:1])
        features[factor] = np.concatenate([background, values])
    return features
