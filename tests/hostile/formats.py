"""The kinds of files that hold data: how a good one is made, how it is read, and the tricks that only it has."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
from corpus import Format, Make
from PIL import Image

from emorl.data import DataConfig, open_dataset
from emorl.data.convert import convert
from emorl.data.folder import damaged_pictures
from emorl.data.images import check_picture, read_ids, read_pixels
from emorl.data.stored import StoredScenes
from emorl.data.storing import store
from emorl.data.tetrominoes import Tetrominoes
from emorl.data.tfrecord import masked_crc
from emorl.errors import UserError
from published_files import encode, framed, message, published, write

SCENES = Tetrominoes(length=3)
FEATURES = [published(SCENES.arrays(index), "tetrominoes") for index in range(3)]
RECORDS = [encode(features) for features in FEATURES]


def noise(width: int = 40, height: int = 30) -> Image.Image:
    return Image.fromarray(np.random.default_rng(0).integers(0, 256, (height, width, 3), dtype=np.uint8))


def picture(suffix: str) -> Format:
    def make(folder: Path) -> Path:
        path = folder / f"x.{suffix}"
        noise().save(path)
        return path

    return Format(make, read_picture, own=PICTURES if suffix == "png" else {})


def read_picture(path: Path) -> None:
    pixels = read_pixels(path)
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3
    assert check_picture(path) == (pixels.shape[1], pixels.shape[0])
    with suppress(UserError):  # noise has more colours than a mask may have
        assert read_ids(path).dtype == np.uint8


def png_of(width: int, height: int, data: bytes) -> bytes:
    def chunk(kind: bytes, content: bytes) -> bytes:
        return (
            struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
        )

    header = struct.pack(">IIBBBBB", width, height, 16, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", data) + chunk(b"IEND", b"")


def as_file(name: str, content: bytes) -> Make:
    def make(folder: Path) -> Path:
        (folder / name).write_bytes(content)
        return folder / name

    return make


def saved_as(kind: str) -> Make:
    def make(folder: Path) -> Path:
        noise().save(folder / "x.png", format=kind)
        return folder / "x.png"

    return make


PICTURES: dict[str, Make] = {
    "100 000 pixels a side": as_file("x.png", png_of(100_000, 100_000, zlib.compress(bytes(1000)))),
    "2**31 - 1 pixels a side": as_file("x.png", png_of(2**31 - 1, 2**31 - 1, b"")),
    "no pixels": as_file("x.png", png_of(0, 0, zlib.compress(b""))),
    "more data than pixels": as_file("x.png", png_of(1, 1, zlib.compress(bytes(10**8)))),
    "EPS": saved_as("EPS"),
    "PDF": saved_as("PDF"),
    "ICO": saved_as("ICO"),
}


def make_stored(folder: Path) -> Path:
    store(SCENES, folder / "s")
    return folder / "s"


def read_stored(path: Path) -> None:
    scenes = StoredScenes(path)
    assert len(scenes) == 3
    for index in range(3):
        scene = scenes[index]
        assert scene.image.shape == (3, 35, 35)
        assert 0 <= scene.image.min() <= scene.image.max() <= 1
        assert 0 <= scene.segmentation.min() <= scene.segmentation.max() <= 3


def with_array(name: str, values: np.ndarray | np.generic) -> Make:
    def make(folder: Path) -> Path:
        path = make_stored(folder)
        np.save(path / f"{name}.npy", values)
        return path

    return make


def with_meta(**changes: object) -> Make:
    def make(folder: Path) -> Path:
        path = make_stored(folder) / "meta.json"
        meta = json.loads(path.read_text())
        info = {key: changes.pop(key) for key in list(changes) if key in meta["info"]}
        path.write_text(json.dumps(meta | {"info": meta["info"] | info} | changes))
        return path.parent

    return make


IMAGE = np.zeros((3, 35, 35, 3), dtype=np.uint8)
STORED: dict[str, Make] = {
    "floats": with_array("image", IMAGE / 255),
    "objects": with_array("image", np.array([{}, [], 0], dtype=object)),
    "0-d": with_array("image", np.uint8(0)),
    "int64": with_array("segmentation", IMAGE[..., 0].astype(np.int64)),
    "ids of 64 bits": with_array("segmentation", np.full((3, 35, 35), 2**64 - 1, dtype=np.uint64)),
    "float128": with_array("x", np.zeros((3, 3), dtype=np.longdouble)),
    "no arrays": with_meta(arrays=[]),
    "other folders": with_meta(arrays=["../x", "image", "segmentation"]),
    "huge side": with_meta(image_size=2**40),
    "huge count": with_meta(count=2**70),
    "info of others": with_meta(factors={"__class__": "discrete"}),
}


def make_unfinished(folder: Path) -> Path:
    """A store that was killed before its only chunk was done."""
    store(SCENES, folder / "s")
    meta = json.loads((folder / "s" / "meta.json").read_text())
    (folder / "s" / "meta.json").unlink()
    del meta["arrays"]
    (folder / "s" / "plan.json").write_text(json.dumps({**meta, "done": []}))
    return (folder / "s").rename(folder / "t.partial")


def read_unfinished(path: Path) -> None:
    store(SCENES, path.with_suffix(""))
    read_stored(path.with_suffix(""))


def make_records(folder: Path) -> Path:
    return write(folder / "x.tfrecords", RECORDS, compress=False)


def make_packed_records(folder: Path) -> Path:
    return write(folder / "x.tfrecords", RECORDS)


def read_published(path: Path) -> None:
    out = path.with_name("out")
    try:
        count = convert(path, "tetrominoes", out)
    except UserError:
        assert not out.exists()
        raise
    assert 0 < count == len(StoredScenes(out))
    for index in range(count):
        StoredScenes(out)[index]


def header(length: int) -> bytes:
    packed = struct.pack("<Q", length)
    return packed + struct.pack("<I", masked_crc(packed))


EMPTY_ELEMENTS = message(
    1, message(1, message(1, b"image") + message(2, message(1, b"\x0a\x00" * 8_000_000)))
)
RECORD_FILES: dict[str, Make] = {
    "eight million elements": as_file("x", gzip.compress(framed(EMPTY_ELEMENTS))),
    "a gigabyte of zeros": as_file("x", gzip.compress(header(2**30) + bytes(10**8))),
    "longer than the file": as_file("x", header(20_000) + b"x"),
    "2**64 - 1 bytes": as_file("x", header(2**64 - 1) + b"x"),
    "gzip of gzip": as_file("x", gzip.compress(gzip.compress(b"".join(map(framed, RECORDS))))),
    "empty members": as_file("x", gzip.compress(b"") * 10_000),
    "floats": as_file("x", framed(encode(FEATURES[0] | {"image": FEATURES[0]["image"] / np.float32(255)}))),
    "too many values": as_file("x", framed(encode(FEATURES[0] | {"x": np.zeros(40, dtype=np.float32)}))),
}


def make_h5(folder: Path) -> Path:
    with h5py.File(folder / "x.h5", "w") as file:
        for name, feature in (("imgs", "image"), ("masks", "mask")):
            values = np.stack([features[feature] for features in FEATURES])
            file.create_dataset(f"train/{name}", data=values, compression="gzip" if name == "masks" else None)
    return folder / "x.h5"


def h5_with(**arrays: object) -> Make:
    def make(folder: Path) -> Path:
        with h5py.File(folder / "x.h5", "w") as file:
            for name, values in arrays.items():
                if isinstance(values, tuple):
                    file.create_dataset(f"train/{name}", shape=values, dtype="u1")
                else:
                    file[f"train/{name}"] = values
        return folder / "x.h5"

    return make


H5: dict[str, Make] = {
    "18 GiB": h5_with(imgs=(1, 80_000, 80_000, 3), masks=(1, 4, 35, 35, 1)),
    "2**60 scenes": h5_with(imgs=(2**60, 1), masks=(2**60, 1)),
    "fewer masks": h5_with(imgs=IMAGE, masks=(2, 4, 35, 35, 1)),
    "scalars": h5_with(imgs=1, masks=2),
    "no scenes": h5_with(imgs=(0, 35, 35, 3), masks=(0, 4, 35, 35, 1)),
    "soft link": h5_with(imgs=h5py.SoftLink("/train/imgs"), masks=(3, 4, 35, 35, 1)),
    "link to a device": h5_with(imgs=h5py.ExternalLink("/dev/zero", "/train"), masks=(3, 4, 35, 35, 1)),
    "text": h5_with(imgs="a", masks="b"),
}


def make_folder(folder: Path) -> Path:
    path = folder / "photos"
    for number in range(12):
        suffix = ("png", "jpg", "gif")[number % 3]
        for place, image in ((path, noise(20, 20)), (path / "masks", Image.new("L", (20, 20), number))):
            place.mkdir(exist_ok=True, parents=True)
            image.save(place / f"{number}.{suffix if place == path else 'png'}")
    return path


def read_folder(path: Path) -> None:
    config = DataConfig("folder", path=str(path), image_size=8)
    whole = [open_dataset(config, split) for split in ("train", "test", "validation")]
    bad = {name for name, _ in damaged_pictures(path)}
    if bad:
        raise UserError(f"{sorted(bad)} cannot be read.")
    for scenes in whole:
        for index in range(len(scenes)):  # what was found whole is read without a complaint
            try:
                assert scenes[index].image.shape == (3, 8, 8)
            except UserError as error:
                raise AssertionError(f"not found before: {error}") from None


FORMATS: dict[str, Format] = {
    **{suffix: picture(suffix) for suffix in ("png", "jpg", "webp", "bmp", "tif", "gif")},
    "stored": Format(make_stored, read_stored, STORED),
    "unfinished store": Format(make_unfinished, read_unfinished),
    "records": Format(make_records, read_published, RECORD_FILES),
    "packed records": Format(make_packed_records, read_published),
    "h5": Format(make_h5, read_published, H5),
    "folder": Format(make_folder, read_folder),
}
