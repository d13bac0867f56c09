"""Readers of published files, against files written here in the published layouts, and against broken ones."""

from __future__ import annotations

import gzip
import os
import struct
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import h5py
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import SHARED
from emorl.data import DataConfig, open_dataset
from emorl.data.published import convert
from emorl.data.sprites import MultiDSprites
from emorl.data.stored import StoredScenes
from emorl.data.tetrominoes import Tetrominoes
from emorl.data.tfrecord import LARGEST, masked_crc, parse_example, records
from emorl.errors import UserError
from published_files import encode, framed, message, published, write

GENERATED = {
    "tetrominoes": Tetrominoes(seed=5, length=6),
    "multi-dsprites": MultiDSprites(seed=5, length=6),
    "multi-dsprites-binarized": MultiDSprites("binarized", seed=5, length=6),
    "multi-dsprites-colored": MultiDSprites("colored", seed=5, length=6),
}


@pytest.mark.parametrize("name", GENERATED)
@pytest.mark.parametrize("compress", [True, False])
def test_what_was_published_is_read_back(name: str, compress: bool, tmp_path: Path) -> None:
    scenes = [GENERATED[name].arrays(index) for index in range(6)]
    payloads = [encode(published(scene, name)) for scene in scenes]
    path = write(tmp_path / "x.tfrecords", payloads, compress=compress)
    assert convert(path, name, tmp_path / "out") == 6
    stored = StoredScenes(tmp_path / "out")
    for index, scene in enumerate(scenes):
        for key, values in stored.arrays(index).items():
            np.testing.assert_array_equal(values, scene[key], err_msg=key)
    config = DataConfig(name, path=str(tmp_path / "out"), train_size=4, test_size=1, validation_size=1)
    assert open_dataset(config, "validation")[0].image.shape[0] == 3


def clevr_scene(rng: np.random.Generator, objects: int) -> dict[str, np.ndarray]:
    segmentation = np.zeros((240, 320), dtype=np.uint8)
    for m in range(objects):
        segmentation[100:120, 30 * m + 5 : 30 * m + 25] = (
            m + 1
        )  # the first ones and the last one miss the crop
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


def test_clevr_is_cropped_resized_and_filtered(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    counts = [3, 10, 6, 7]
    scenes = [clevr_scene(rng, count) for count in counts]
    path = write(tmp_path / "clevr.tfrecords", list(map(encode, scenes)))
    assert convert(path, "clevr6", tmp_path / "six") == 2
    assert convert(path, "clevr10", tmp_path / "ten") == 2
    assert convert(path, "clevr", tmp_path / "all", limit=3) == 3
    scene = StoredScenes(tmp_path / "ten").arrays(0)
    assert scene["image"].shape == (96, 96, 3)
    assert scene["segmentation"].shape == (96, 96)
    full = scene["segmentation_full"]
    assert full.shape == (192, 192)
    # Objects 1 and 2 (columns 5-25, 35-55) and 9 and 10 (from column 245: partly; from 275) lie outside 64..256.
    visible = [m for m in range(10) if 30 * m + 25 > 64 and 30 * m + 5 < 256]
    assert sorted(np.unique(full)) == list(range(len(visible) + 1))
    np.testing.assert_array_equal(
        scene["color"][: len(visible)], scenes[1]["color"][[m + 1 for m in visible]]
    )
    assert np.isnan(scene["color"][len(visible) :]).all()


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


def test_the_authors_h5_files_give_the_same_scenes(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    scenes = [clevr_scene(rng, count) for count in (3, 10, 6)]
    records_file = write(tmp_path / "clevr.tfrecords", list(map(encode, scenes)))
    h5 = write_h5(tmp_path / "clevr.h5", {"train": scenes, "test": scenes[:1]})
    assert (
        convert(records_file, "clevr6", tmp_path / "a")
        == convert(h5, "clevr6", tmp_path / "b", group="train")
        == 2
    )
    one, other = StoredScenes(tmp_path / "a"), StoredScenes(tmp_path / "b")
    for name, values in one.arrays(1).items():
        np.testing.assert_array_equal(values, other.arrays(1)[name])
    with pytest.raises(UserError, match="several groups"):
        convert(h5, "clevr6", tmp_path / "c")
    with pytest.raises(UserError, match="no group 'val'"):
        convert(h5, "clevr6", tmp_path / "c", group="val")


def test_h5_files_without_factors_and_broken_ones(tmp_path: Path) -> None:
    scenes = [published(GENERATED["tetrominoes"].arrays(index), "tetrominoes") for index in range(2)]
    h5 = write_h5(tmp_path / "t.h5", {"train": scenes}, factors=False)
    assert convert(h5, "tetrominoes", tmp_path / "a") == 2
    stored = StoredScenes(tmp_path / "a")
    assert stored.info.factors == {}
    np.testing.assert_array_equal(stored.arrays(1)["image"], scenes[1]["image"])
    with pytest.raises(UserError, match=r"scene 0 of train.*another data set"):
        convert(h5, "multi-dsprites", tmp_path / "b")
    for name, content in {"cut.h5": h5.read_bytes()[:900], "text.h5": b"no", "empty.h5": b""}.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(UserError, match=f"Cannot read .*{name}"):
            convert(tmp_path / name, "tetrominoes", tmp_path / "b")


@pytest.mark.skipif(not SHARED.exists(), reason="the published records are not beside this clone")
def test_ten_real_records(tmp_path: Path) -> None:
    assert convert(SHARED / "tetrominoes_mini.tfrecords", "tetrominoes", tmp_path / "out") == 10
    scenes = StoredScenes(tmp_path / "out")
    for index in range(10):
        scene = scenes.arrays(index)
        for m in range(3):
            rows, columns = np.nonzero(scene["segmentation"] == m + 1)
            assert (scene["x"][m], scene["y"][m]) == (rows.min(), columns.min())
            colors = scene["image"][rows, columns] > 0
            assert (colors == scene["color"][m]).all()


SCENE = encode(published(GENERATED["tetrominoes"].arrays(0), "tetrominoes"))


def broken(content: bytes) -> dict[str, bytes]:
    """Files that are not what they should be."""
    plain = framed(SCENE)
    header = struct.pack("<Q", 2**60)
    return {
        "empty": b"",
        "truncated gzip": content[: len(content) // 2],
        "text": b"hello, world, this is no record file",
        "ends in a header": gzip.compress(plain + plain[:7]),
        "ends in a payload": gzip.compress(plain[:-9]),
        "flipped payload bit": gzip.compress(plain[:500] + bytes([plain[500] ^ 1]) + plain[501:]),
        "flipped length": gzip.compress(bytes([plain[0] ^ 1]) + plain[1:]),
        "big-endian length": gzip.compress(struct.pack(">Q", len(SCENE)) + plain[8:]),
        "enormous length": gzip.compress(header + struct.pack("<I", masked_crc(header)) + b"x"),
        "bomb": gzip.compress(b"\0" * 50_000_000),
        "not an example": gzip.compress(framed(b"\xff" * 100)),
        "empty example": gzip.compress(framed(b"")),
        "wrong set": gzip.compress(framed(encode(published(GENERATED["multi-dsprites"].arrays(0), "multi-dsprites")))),
    }  # fmt: skip


@pytest.mark.parametrize("kind", broken(gzip.compress(framed(SCENE))))
def test_broken_files_get_one_clear_line(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "x.tfrecords"
    path.write_bytes(broken(gzip.compress(framed(SCENE)))[kind])
    with pytest.raises(UserError, match=r"x\.tfrecords") as caught:
        convert(path, "tetrominoes", tmp_path / "out")
    assert kind == "empty" or "record" in str(caught.value)
    assert not (tmp_path / "out").exists()


def test_masks_that_overlap_are_refused(tmp_path: Path) -> None:
    features = published(GENERATED["tetrominoes"].arrays(0), "tetrominoes")
    features["mask"][0] = 255
    path = write(tmp_path / "x.tfrecords", [SCENE, encode(features)])
    with pytest.raises(UserError, match=r"record 1: its masks do not give every pixel"):
        convert(path, "tetrominoes", tmp_path / "out")


def test_an_interrupted_conversion_starts_over(tmp_path: Path) -> None:
    good, bad = tmp_path / "good", tmp_path / "bad"
    write(good, [SCENE] * 3)
    bad.write_bytes(good.read_bytes()[:-30])
    with pytest.raises(UserError):
        convert(bad, "tetrominoes", tmp_path / "out")
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match="missing"):
        StoredScenes(tmp_path / "out.partial")
    assert convert(good, "tetrominoes", tmp_path / "out") == 3
    assert not (tmp_path / "out.partial").exists()
    with pytest.raises(UserError, match="exists already"):
        convert(good, "tetrominoes", tmp_path / "out")


def test_unknown_sets_and_missing_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="did you mean 'tetrominoes'"):
        convert(tmp_path / "x", "tetromino", tmp_path / "out")
    with pytest.raises(UserError, match="Cannot read"):
        convert(tmp_path / "x", "tetrominoes", tmp_path / "out")
    with pytest.raises(UserError, match="Cannot read"):
        convert(tmp_path, "tetrominoes", tmp_path / "out")


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_no_damage_goes_unnoticed(data: st.DataObject, tmp_path: Path) -> None:
    """Whatever is flipped, cut or inserted in a file gives the true records or a UserError, nothing else."""
    content = bytearray(framed(SCENE) * 2)
    at = data.draw(st.integers(0, len(content) - 1))
    match data.draw(st.sampled_from(["flip", "cut", "insert"])):
        case "flip":
            content[at] ^= 1 << data.draw(st.integers(0, 7))
        case "cut":
            del content[at:]
        case "insert":
            content[at:at] = data.draw(st.binary(min_size=1, max_size=20))
    path = tmp_path / "x.tfrecords"
    path.write_bytes(content)
    try:
        found = [payload for payload, _ in records(path)]
    except UserError:
        return
    assert found == [SCENE] * len(found)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200) | st.integers(0, 300).map(lambda cut: SCENE[:cut] + b"\x80" * 5))
def test_any_payload_is_parsed_or_refused(payload: bytes) -> None:
    with suppress(ValueError):
        assert isinstance(parse_example(payload), dict)


def test_the_limit_leaves_room_for_every_published_record() -> None:
    assert LARGEST > 3 * (240 * 320 * 3 + 11 * 240 * 320)


def refusal(path: Path, out: Path, name: str = "tetrominoes") -> str:
    """The one line that a conversion which fails ends in; nothing is left of it."""
    with pytest.raises(UserError) as caught:
        convert(path, name, out)
    assert not out.exists()
    assert not out.with_name(out.name + ".partial").exists()
    assert "\n" not in str(caught.value)
    return str(caught.value)


TETROMINO = published(GENERATED["tetrominoes"].arrays(0), "tetrominoes")


def test_numbers_of_any_kind_are_images_if_they_are_bytes(tmp_path: Path) -> None:
    as_floats = TETROMINO | {"image": TETROMINO["image"].astype(np.float32)}
    path = write(tmp_path / "x", [encode(as_floats), SCENE])
    assert convert(path, "tetrominoes", tmp_path / "out") == 2
    scenes = StoredScenes(tmp_path / "out")
    assert scenes.arrays(0)["image"].dtype == np.uint8
    np.testing.assert_array_equal(scenes.arrays(0)["image"], scenes.arrays(1)["image"])
    for wrong in (as_floats["image"] / 255 + 0.1, as_floats["image"] * np.nan, as_floats["image"] - 1,
                  as_floats["image"] + 256):  # fmt: skip
        path = write(tmp_path / "y", [encode(TETROMINO | {"image": wrong.astype(np.float32)})])
        assert "record 0: its feature 'image' holds float32 that are not whole" in refusal(
            path, tmp_path / "b"
        )
    for dtype in (np.int64, np.float64, np.uint16):
        scene = TETROMINO | {"image": TETROMINO["image"].astype(dtype)}
        h5 = write_h5(tmp_path / f"{dtype.__name__}.h5", {"train": [scene]}, factors=False)
        assert convert(h5, "tetrominoes", tmp_path / dtype.__name__) == 1
        assert StoredScenes(tmp_path / dtype.__name__).arrays(0)["image"].dtype == np.uint8


@pytest.mark.parametrize("factor", ["x", "color", "visibility", "shape"])
def test_a_wrong_number_of_values_is_an_error_and_not_a_shift(factor: str, tmp_path: Path) -> None:
    for wrong in (
        np.repeat(TETROMINO[factor], 2, axis=0),
        TETROMINO[factor][:1],
        TETROMINO[factor].reshape(-1)[:-1],
    ):
        path = write(tmp_path / "x", [SCENE, encode(TETROMINO | {factor: wrong})])
        assert f"record 1: its feature '{factor}' has {wrong.size} values" in refusal(path, tmp_path / "out")
    for wrong in (TETROMINO[factor] * np.nan, TETROMINO[factor] + np.inf):
        path = write(tmp_path / "x", [encode(TETROMINO | {factor: wrong})])
        assert f"'{factor}' holds what is not a finite number" in refusal(path, tmp_path / "out")


def test_a_small_file_does_not_take_much_memory(tmp_path: Path) -> None:
    """16 KB of gzip that stand for a list of eight million empty elements took 2.5 GB when they were kept."""
    path = write(tmp_path / "x", [with_empty_elements(8_000_000)])
    assert path.stat().st_size < 20_000
    assert "beyond the" in refusal(path, tmp_path / "out")
    payload = with_empty_elements(50_000)
    tracemalloc.start()
    try:
        assert parse_example(payload)["image"].size == 0
        assert tracemalloc.get_traced_memory()[1] < 3_000_000
    finally:
        tracemalloc.stop()


def with_empty_elements(count: int) -> bytes:
    return message(1, message(1, message(1, b"image") + message(2, message(1, b"\x0a\x00" * count))))


def h5_file(path: Path, **arrays: object) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[f"train/{name}"] = values
    return path


def test_h5_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
    images = np.zeros((3, 35, 35, 3), dtype=np.uint8)
    masks = np.zeros((3, 4, 35, 35, 1), dtype=np.uint8)
    masks[:, 0] = 1
    out = tmp_path / "out"
    other = h5_file(tmp_path / "other.h5", imgs=images, masks=masks)
    assert convert(other, "tetrominoes", tmp_path / "fine") == 3
    wrong: dict[str, tuple[dict[str, object], str]] = {
        "fewer masks": ({"imgs": images, "masks": masks[:2]}, "3 imgs, 2 masks"),
        "scalars": ({"imgs": 3, "masks": 4}, "not one row of numbers"),
        "vectors": ({"imgs": np.zeros(3), "masks": np.zeros(3)}, "another data set"),
        "text": ({"imgs": [b"a"], "masks": [b"b"]}, "not one row of numbers"),
        "dangling link": ({"imgs": h5py.SoftLink("/nowhere"), "masks": masks}, "no array of this file"),
        "other file": ({"imgs": h5py.ExternalLink(str(other), "train/imgs"), "masks": masks}, "no array of this file"),
        "a group": ({"imgs/x": images, "masks": masks}, "no array of this file"),
        "without images": ({"masks": masks}, "has no train/imgs"),
    }  # fmt: skip
    for kind, (arrays, words) in wrong.items():
        assert words in refusal(h5_file(tmp_path / f"{kind}.h5", **arrays), out), kind
    with h5py.File(tmp_path / "group.h5", "w") as file:
        file["train"] = h5py.ExternalLink(str(other), "train")
    assert "several groups; choose one with --group: none" in refusal(tmp_path / "group.h5", out)
    (tmp_path / "pipe.h5").unlink(missing_ok=True)
    os.mkfifo(tmp_path / "pipe.h5")
    assert "it is a pipe" in refusal(tmp_path / "pipe.h5", out)


def test_h5_files_that_declare_or_unpack_to_gigabytes(tmp_path: Path) -> None:
    path, out = tmp_path / "x.h5", tmp_path / "out"
    with h5py.File(path, "w") as file:
        file.create_dataset("train/imgs", shape=(1, 80_000, 80_000, 3), dtype="u1")
        file.create_dataset("train/masks", shape=(1, 4, 35, 35, 1), dtype="u1")
    assert "more than 67108864 bytes" in refusal(path, out)
    with h5py.File(path, "w") as file:
        huge = (1000, 35, 35, 300)
        file.create_dataset("train/imgs", shape=huge, dtype="u1", chunks=huge)
        file.create_dataset("train/masks", shape=(1000, 4, 35, 35, 1), dtype="u1")
    assert "in pieces of more than" in refusal(path, out)
    packer = zlib.compressobj(9)
    bomb = b"".join(packer.compress(bytes(2**24)) for _ in range(24)) + packer.flush()
    with h5py.File(path, "w") as file:
        options = {"shape": (2, 35, 35, 3), "dtype": "u1", "chunks": (1, 35, 35, 3), "compression": "gzip"}
        images = file.create_dataset("train/imgs", **options)
        images.id.write_direct_chunk((0, 0, 0, 0), bomb)
        file["train/masks"] = np.zeros((2, 4, 35, 35, 1), dtype=np.uint8)
    assert "unpacks to more than it should" in refusal(path, out)


PACKED = [
    {"compression": "gzip"},
    {"compression": "lzf"},
    {"compression": "gzip", "shuffle": True},
    {"chunks": True},
]


@pytest.mark.parametrize("options", PACKED, ids=str)
def test_packed_h5_files_are_read(options: dict[str, object], tmp_path: Path) -> None:
    scenes = [published(GENERATED["tetrominoes"].arrays(index), "tetrominoes") for index in range(6)]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, feature in (("imgs", "image"), ("masks", "mask")):
            file.create_dataset(
                f"train/{name}", data=np.stack([scene[feature] for scene in scenes]), **options
            )
    assert convert(tmp_path / "x.h5", "tetrominoes", tmp_path / "out") == 6
    np.testing.assert_array_equal(StoredScenes(tmp_path / "out").arrays(5)["image"], scenes[5]["image"])
