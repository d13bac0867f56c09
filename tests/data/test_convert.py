"""The reader of published TFRecords, against files written here in the published layouts, and against broken ones."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from conftest import SHARED
from emorl.data import DataConfig, open_dataset
from emorl.data.convert import convert
from emorl.data.sprites import MultiDSprites
from emorl.data.stored import StoredScenes
from emorl.data.tetrominoes import Tetrominoes
from emorl.data.tfrecord import LARGEST, masked_crc, parse_example, records
from emorl.errors import UserError
from published_files import clevr_scene, encode, framed, message, published, refusal, write, write_h5

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
