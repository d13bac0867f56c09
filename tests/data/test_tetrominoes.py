"""Tetrominoes: pure functions of (seed, index), valid scenes, and the published pixels."""

from __future__ import annotations

import gzip
import struct
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from conftest import SHARED
from emorl.data import DataConfig, open_dataset
from emorl.data.tetrominoes import CELLS, COLORS, Tetrominoes, render
from emorl.errors import UserError

RECORDS = SHARED / "tetrominoes_mini.tfrecords"


def test_scene_is_a_function_of_seed_and_index() -> None:
    one, other = Tetrominoes(seed=3, length=10), Tetrominoes(seed=3, length=1000)
    for index in (0, 7):
        a, b = one.arrays(index), other.arrays(index)
        assert all(np.array_equal(a[name], b[name]) for name in a)
    assert not np.array_equal(one.arrays(0)["image"], one.arrays(1)["image"])
    assert not np.array_equal(one.arrays(0)["image"], Tetrominoes(seed=4).arrays(0)["image"])


def test_scenes_are_valid() -> None:
    scenes = Tetrominoes(length=300)
    shapes, colors, corners = set(), set(), []
    for index in range(300):
        scene = scenes[index]
        assert scene.image.shape == (3, 35, 35)
        assert scene.image.dtype == torch.float32
        assert scene.image.max() == 1
        ids, counts = scene.segmentation.unique(return_counts=True)
        assert ids.tolist() == [0, 1, 2, 3]
        assert counts[1:].tolist() == [100, 100, 100]  # nothing is hidden
        assert (scene.image.sum(dim=0) > 0).equal(scene.segmentation > 0)
        for m in range(3):
            rows, columns = torch.where(scene.segmentation == m + 1)
            assert scene.factors["x"][m] == rows.min()
            assert scene.factors["y"][m] == columns.min()
            color = scene.image[:, rows[0], columns[0]] > 0
            assert color.float().equal(scene.factors["color"][m])
        shapes |= set(scene.factors["shape"].tolist())
        colors |= {tuple(color) for color in scene.factors["color"].tolist()}
        corners += list(zip(scene.factors["x"].tolist(), scene.factors["y"].tolist(), strict=True))
    assert shapes == set(range(1, 20))
    assert len(colors) == len(COLORS) == 6
    assert len({x % 5 for x, _ in corners}) == 5  # not aligned to a grid


def test_shape_frequencies_are_the_published_ones() -> None:
    """503,318 of the published million have no S or Z piece (shapes 11-14); 19 uniform shapes predict 0.502."""
    scenes = Tetrominoes(length=4000)
    without = [not np.isin(scenes.arrays(index)["shape"], [11, 12, 13, 14]).any() for index in range(4000)]
    assert np.mean(without) == pytest.approx(
        0.503, abs=0.025
    )  # three standard errors; 17 shapes would give 0.453


def test_pieces_are_nineteen_different_tetrominoes() -> None:
    pieces = {tuple(map(tuple, cells)) for cells in CELLS}
    assert len(pieces) == 19
    for cells in CELLS:
        assert cells.min(axis=0).tolist() == [0, 0]
        joined = sum(abs(a - b).sum() == 1 for a in cells for b in cells) // 2
        assert joined in (3, 4)  # connected; only the square has four contacts


@pytest.mark.slow
def test_fast_enough_to_store() -> None:
    """The bar is 5,000 scenes per second of a core; the test allows for a slower one."""
    scenes = Tetrominoes()
    started = time.process_time()
    for index in range(1000):
        scenes.arrays(index)
    assert 1000 / (time.process_time() - started) > 2000


def fields(payload: bytes) -> Iterator[tuple[int, bytes]]:
    """Length-delimited fields of a protocol-buffer message."""
    at = 0

    def varint() -> int:
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = payload[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    while at < len(payload):
        tag = varint()
        size = varint()
        yield tag >> 3, payload[at : at + size]
        at += size


def published() -> Iterator[dict[str, np.ndarray]]:
    data = gzip.decompress(RECORDS.read_bytes())
    at = 0
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        example = data[at + 12 : at + 12 + size]
        at += 16 + size
        record = {}
        for _, features in fields(example):
            for _, entry in fields(features):
                key, value = (part for _, part in fields(entry))
                ((kind, content),) = fields(value)
                if kind == 1:
                    record[key.decode()] = np.frombuffer(content, np.uint8)[2::3]
                else:
                    record[key.decode()] = np.frombuffer(next(fields(content))[1], "<f4")
        yield record


@pytest.mark.skipif(not RECORDS.exists(), reason="the published records are not here")
def test_published_factors_render_to_the_published_bytes() -> None:
    records = list(published())
    assert len(records) == 10
    for record in records:
        shapes = record["shape"][1:].astype(int) - 1
        offsets = np.stack([record["x"][1:], record["y"][1:]], axis=1).astype(int)
        scene = render(shapes, offsets, record["color"].reshape(4, 3)[1:].astype(np.uint8))
        assert np.array_equal(scene["image"], record["image"].reshape(35, 35, 3))
        masks = record["mask"].reshape(4, 35, 35)
        for entity in range(4):
            assert np.array_equal(scene["segmentation"] == entity, masks[entity] == 255)
        assert np.array_equal(scene["visibility"], record["visibility"][1:])


def test_splits_are_disjoint_and_of_the_papers_size() -> None:
    config = DataConfig()
    train, test, validation = (open_dataset(config, split) for split in ("train", "test", "validation"))
    assert (len(train), len(test), len(validation)) == (60_000, 320, 320)
    whole = Tetrominoes(length=60_640)
    assert test[0].image.equal(whole[60_000].image)
    assert validation[0].image.equal(whole[60_320].image)
    with pytest.raises(IndexError):
        test[320]


def test_unknown_names_are_refused() -> None:
    with pytest.raises(UserError, match="did you mean 'tetrominoes'"):
        open_dataset(DataConfig("tetrominos"), "test")
    misspelt: Any = "tset"
    with pytest.raises(UserError, match="There is no split"):
        open_dataset(DataConfig(), misspelt)
