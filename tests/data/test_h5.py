"""The reader of the authors' .h5 files: they give the same scenes as the records, and broken ones are refused."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import h5py
import numpy as np
import pytest

from emorl.data.convert import convert
from emorl.data.stored import StoredScenes
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError
from published_files import clevr_scene, encode, published, refusal, write, write_h5

TETROMINOES = Tetrominoes(seed=5, length=6)


def test_the_authors_files_give_the_same_scenes(tmp_path: Path) -> None:
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


def test_files_without_factors_and_broken_ones(tmp_path: Path) -> None:
    scenes = [published(TETROMINOES.arrays(index), "tetrominoes") for index in range(2)]
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


def h5_file(path: Path, **arrays: object) -> Path:
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            file[f"train/{name}"] = values
    return path


def test_files_that_are_not_what_they_should_be(tmp_path: Path) -> None:
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


def test_files_that_declare_or_unpack_to_gigabytes(tmp_path: Path) -> None:
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
def test_packed_files_are_read(options: dict[str, object], tmp_path: Path) -> None:
    scenes = [published(TETROMINOES.arrays(index), "tetrominoes") for index in range(6)]
    with h5py.File(tmp_path / "x.h5", "w") as file:
        for name, feature in (("imgs", "image"), ("masks", "mask")):
            file.create_dataset(
                f"train/{name}", data=np.stack([scene[feature] for scene in scenes]), **options
            )
    assert convert(tmp_path / "x.h5", "tetrominoes", tmp_path / "out") == 6
    np.testing.assert_array_equal(StoredScenes(tmp_path / "out").arrays(5)["image"], scenes[5]["image"])
