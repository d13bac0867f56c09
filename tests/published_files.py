"""Files in the published layouts, written as their authors did."""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import h5py
import numpy as np
import pytest

from emorl.data.convert import convert
from emorl.data.layouts import LAYOUTS
from emorl.data.tfrecord import masked_crc
from emorl.errors import UserError


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


def clevr_scene(rng: np.random.Generator, objects: int) -> dict[str, np.ndarray]:
    """Random features of a CLEVR record with so many objects, in a row from left to right."""
    segmentation = np.zeros((240, 320), dtype=np.uint8)
    for m in range(objects):
        # The first ones and the last one miss the crop.
        segmentation[100:120, 30 * m + 5 : 30 * m + 25] = m + 1
    padding = np.where(np.arange(11) <= objects, 1, 0)
    factors = {name: (rng.random(11) * padding).astype(np.float32) for name in ("x", "y", "z", "rotation")}
    codes = {
        name: (rng.integers(1, 3, 11) * padding).astype(np.uint8)
        for name in ("size", "material", "shape", "color")
    }
    masks = (np.arange(11)[:, None, None] == segmentation).astype(np.uint8)[..., None] * 255
    image = rng.integers(0, 256, (240, 320, 3), dtype=np.uint8)
    features = {"image": image, "mask": masks, "visibility": padding.astype(np.float32)}
    return features | factors | codes


def refusal(path: Path, out: Path, name: str = "tetrominoes") -> str:
    """The one line that a conversion which fails ends in; nothing is left of it."""
    with pytest.raises(UserError) as caught:
        convert(path, name, out)
    assert not out.exists()
    assert not out.with_name(out.name + ".partial").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


def write_h5(path: Path, groups: dict[str, list[dict[str, np.ndarray]]], *, factors: bool = True) -> Path:
    with h5py.File(path, "w") as file:
        for group, scenes in groups.items():
            file[f"{group}/imgs"] = np.stack([scene["image"] for scene in scenes])
            file[f"{group}/masks"] = np.stack([scene["mask"] for scene in scenes])
            if factors:
                names = ("x", "y", "z", "rotation", "size", "material", "shape", "color", "visibility")
                file[f"{group}/factors"] = np.stack(
                    [np.stack([scene[n] for n in names], axis=1) for scene in scenes]
                )
    return path
