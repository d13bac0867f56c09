"""Stored scenes and batches."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

import forks
from emorl.data import DATASETS, DataConfig, open_dataset, storing
from emorl.data.base import SceneDataset
from emorl.data.loading import batch_indices, endless, in_order, prefetch
from emorl.data.stored import StoredScenes
from emorl.data.storing import store
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError
from emorl.types import Scene


def files(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def test_stored_scenes_are_the_scenes(tmp_path: Path) -> None:
    scenes = Tetrominoes(seed=1, length=7)
    store(scenes, tmp_path / "s")
    read = StoredScenes(tmp_path / "s")
    assert len(read) == 7
    assert read.info == scenes.info
    for index in (0, 6):
        one, other = scenes[index], read[index]
        assert one.image.equal(other.image)
        assert one.segmentation.equal(other.segmentation)
        assert all(one.factors[name].equal(other.factors[name]) for name in one.factors)


def test_bytes_do_not_depend_on_workers(tmp_path: Path) -> None:
    scenes = Tetrominoes(length=2500)
    seen = []
    store(scenes, tmp_path / "one", progress=lambda done, total: seen.append((done, total)))
    store(scenes, tmp_path / "two", workers=2)
    assert files(tmp_path / "one") == files(tmp_path / "two")
    assert seen == [(0, 2500), (1000, 2500), (2000, 2500), (2500, 2500)]


@pytest.mark.parametrize("name", ["multi-dsprites-textured", "clevr6-fast"])
def test_rendered_scenes_are_the_same_from_any_process(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(storing, "get_context", lambda _: forks.context)  # forks begin sooner
    scenes = DATASETS[name](length=18, seed=3)
    scenes.chunk = 6
    store(scenes, tmp_path / "two", workers=2)
    read = StoredScenes(tmp_path / "two")
    for index in (17, 0):
        here = scenes.arrays(index)
        assert all(np.array_equal(here[key], read.arrays(index)[key], equal_nan=True) for key in here)


class Killed(Tetrominoes):
    """Dies in the second chunk, once."""

    def arrays(self, index: int) -> dict[str, np.ndarray]:
        if index == 1500:
            raise KeyboardInterrupt
        return super().arrays(index)


def test_an_interrupted_store_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(KeyboardInterrupt):
        store(Killed(length=2500), tmp_path / "s")
    assert not (tmp_path / "s").exists()
    written = []
    original = storing.write_chunk

    def noted(dataset: SceneDataset, partial: Path, start: int) -> int:
        written.append(start)
        return original(dataset, partial, start)

    monkeypatch.setattr(storing, "write_chunk", noted)
    store(Tetrominoes(length=2500), tmp_path / "s")
    assert written == [1000, 2000]  # the first chunk was not made again
    store(Tetrominoes(length=2500), tmp_path / "whole")
    assert files(tmp_path / "s") == files(tmp_path / "whole")


def test_an_unfinished_store_of_other_scenes_is_not_continued(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        store(Killed(length=2500), tmp_path / "s")
    with pytest.raises(UserError, match="unfinished store of other scenes"):
        store(Tetrominoes(seed=9, length=2500), tmp_path / "s")


def test_bad_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"holds no stored scenes.*meta\.json"):
        StoredScenes(tmp_path)
    store(Tetrominoes(length=3), tmp_path / "s")
    with pytest.raises(UserError, match="exists already"):
        store(Tetrominoes(length=3), tmp_path / "s")
    image = (tmp_path / "s" / "image.npy").read_bytes()
    (tmp_path / "s" / "image.npy").write_bytes(image[: len(image) // 2])
    with pytest.raises(UserError, match="damaged"):
        StoredScenes(tmp_path / "s")
    (tmp_path / "s" / "meta.json").write_text("{")
    with pytest.raises(UserError, match="damaged"):
        StoredScenes(tmp_path / "s")


def test_splits_of_stored_scenes(tmp_path: Path) -> None:
    store(Tetrominoes(length=30), tmp_path / "s")
    config = DataConfig(path=str(tmp_path / "s"), train_size=20, test_size=5, validation_size=5)
    assert open_dataset(config, "test")[0].image.equal(Tetrominoes(length=30)[20].image)
    with pytest.raises(UserError, match="holds 30 scenes"):
        open_dataset(DataConfig(path=str(tmp_path / "s")), "train")
    meta = json.loads((tmp_path / "s" / "meta.json").read_text())
    meta["info"]["name"] = "other"
    (tmp_path / "s" / "meta.json").write_text(json.dumps(meta))
    with pytest.raises(UserError, match="holds other scenes, not tetrominoes"):
        open_dataset(config, "test")


def test_batches_walk_through_shuffled_epochs() -> None:
    seen = [index for step in range(10) for index in batch_indices(20, 4, seed=0, step=step)]
    assert sorted(seen[:20]) == sorted(seen[20:]) == list(range(20))
    assert seen[:20] != seen[20:]
    assert batch_indices(20, 4, seed=0, step=7) == seen[28:32]
    assert batch_indices(20, 4, seed=1, step=0) != seen[:4]
    assert len(set(batch_indices(3, 8, seed=0, step=0))) == 3  # a batch larger than the epoch


def test_ranks_share_a_batch_and_resume_finds_its_place() -> None:
    scenes = Tetrominoes(length=12)
    whole = next(endless(scenes, 6, seed=0, start=3))
    shares = [next(endless(scenes, 6, seed=0, start=3, rank=rank, world_size=2)) for rank in (0, 1)]
    for rank, share in enumerate(shares):
        assert share.image.equal(whole.image[rank::2])
    iterator = endless(scenes, 6, seed=0)
    for _ in range(3):
        next(iterator)
    assert next(iterator).image.equal(whole.image)


def test_in_order_covers_every_scene_once() -> None:
    batches = list(in_order(Tetrominoes(length=10), 4, limit=9))
    assert [indices for indices, _ in batches] == [[0, 1, 2, 3], [4, 5, 6, 7], [8]]
    assert [len(batch.image) for _, batch in batches] == [4, 4, 1]


def test_batches_made_ahead_are_the_same() -> None:
    scenes = open_dataset(DataConfig("tetrominoes"), "train")
    before = threading.active_count()
    plain, early = endless(scenes, 4, seed=0, start=3), prefetch(endless(scenes, 4, seed=0, start=3))
    for _ in range(5):
        assert torch.equal(next(plain).image, next(early).image)
    early.close()
    assert threading.active_count() == before  # the thread ends with its reader


def test_a_problem_met_ahead_is_raised_in_its_turn() -> None:
    first = Scene.stack([Tetrominoes()[0]])

    def batches() -> Iterator[Scene]:
        yield first
        raise UserError("unreadable")

    early = prefetch(batches())
    assert next(early) is first
    with pytest.raises(UserError, match="unreadable"):
        next(early)
