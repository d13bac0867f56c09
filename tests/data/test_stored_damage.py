"""Stored scenes that are not what they should be, disks without room, and folders that are somebody else's."""

from __future__ import annotations

import errno
import json
import os
import pickle
import resource
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest

from emorl.data.base import Arrays
from emorl.data.rows import Rows
from emorl.data.stored import StoredScenes
from emorl.data.storing import StoreWriter, store
from emorl.data.tetrominoes import Tetrominoes
from emorl.errors import UserError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    store(Tetrominoes(length=3), tmp_path / "s")
    return tmp_path / "s"


def refused(folder: Path, match: str) -> None:
    with pytest.raises(UserError, match=match) as caught:
        StoredScenes(folder)[0]
    assert "\n" not in str(caught.value)


IMAGE = np.zeros((3, 35, 35, 3), dtype=np.uint8)
WRONG_ARRAYS: dict[str, tuple[str, Any, str]] = {
    "floats in 0..1": ("image", IMAGE / 255, r"image\.npy is damaged.*float64"),
    "64-bit integers": ("image", IMAGE.astype(np.int64), "int64"),
    "no channels": ("image", IMAGE[..., 0], r"not uint8 \(35, 35, 3\)"),
    "another size": ("image", IMAGE[:, 1:], r"not uint8 \(35, 35, 3\)"),
    "too few": ("image", IMAGE[:2], "it has 2 rows; meta.json says 3"),
    "a number": ("image", np.uint8(1), "is not one of rows"),
    "none": ("image", IMAGE[:0], "is not one of rows"),
    "objects": ("image", np.array([{}, {}, {}], dtype=object), "instead of numbers"),
    "records": ("image", np.zeros(3, dtype=[("a", "u1")]), "instead of numbers"),
    "text": ("x", np.array(["a", "b", "c"]), "not floats"),
    "big-endian": ("x", np.zeros((3, 3), dtype=">f4"), "instead of numbers"),
    "columns first": ("image", np.asfortranarray(IMAGE), "is not one of rows"),
    "signed ids": ("segmentation", np.zeros((3, 35, 35), dtype=np.int64), "not unsigned integers"),
    "ids beyond": ("segmentation", np.full((3, 35, 35), 4, dtype=np.uint8), "scene 0 has object 4; 3 is the most"),
    "whole factors": ("x", np.zeros((3, 3), dtype=np.int64), "not floats"),
    "factors of others": ("x", np.zeros((3, 4), dtype=np.float32), "not floats"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_ARRAYS)
def test_arrays_are_what_their_names_say(kind: str, folder: Path) -> None:
    name, values, match = WRONG_ARRAYS[kind]
    np.save(folder / f"{name}.npy", values)
    refused(folder, match)


def test_arrays_are_as_long_as_they_say(folder: Path) -> None:
    path = folder / "image.npy"
    content = path.read_bytes()
    for damaged in (b"", content[:40], content[:-1], content + b"x", b"\x93NUMPY\x02\0\xff\xff\xff\xff",
                    content.replace(b"(3, 35", b"(9, 35"), content.replace(b"'|u1'", b"(((((")):  # fmt: skip
        path.write_bytes(damaged)
        refused(folder, r"image\.npy is damaged")
    path.unlink()
    refused(folder, r"Cannot read .*image\.npy: No such file")
    os.mkfifo(path)
    refused(folder, "it is a pipe")


def test_an_array_cut_while_it_is_read_is_an_error_and_not_a_signal(folder: Path) -> None:
    scenes = StoredScenes(folder)
    os.truncate(folder / "image.npy", 4000)
    assert scenes.arrays(0)["image"].shape == (35, 35, 3)
    with pytest.raises(UserError, match="it ends before row 2"):
        scenes.arrays(2)


def test_rows_go_to_other_processes(folder: Path) -> None:
    rows = pickle.loads(pickle.dumps(Rows(folder / "x.npy")))
    np.testing.assert_array_equal(rows[1], Tetrominoes(length=3).arrays(1)["x"])


WRONG_META: dict[str, tuple[Callable[[dict[str, Any]], object], str]] = {
    "a list": (lambda meta: [], "JSON object"),
    "deep": (lambda meta: "deep", "nested too deeply"),
    "no info": (lambda meta: meta.pop("info") and meta, "no 'info'"),
    "info of text": (lambda meta: meta | {"info": "x"}, "'info' is of type str"),
    "no count": (lambda meta: meta.pop("count") and meta, "no 'count'"),
    "count of text": (lambda meta: meta | {"count": "3"}, "'count' is of type str"),
    "negative count": (lambda meta: meta | {"count": -3}, "at least 1"),
    "endless count": (lambda meta: meta | {"count": 10**30}, "it has 3 rows"),
    "arrays as text": (lambda meta: meta | {"arrays": "image"}, "'arrays' is of type str"),
    "other folders": (lambda meta: meta | {"arrays": ["../../image"]}, "not words"),
    "no image": (lambda meta: meta | {"arrays": [n for n in meta["arrays"] if n != "image"]}, "no array 'image'"),
    "no factor": (lambda meta: meta | {"arrays": ["image", "segmentation"]}, "no array 'color'"),
    "unknown": (lambda meta: meta | {"info": {**meta["info"], "exec": "x"}}, "nothing is known of"),
    "size of text": (lambda meta: meta | {"info": {**meta["info"], "image_size": "35"}}, "type str, not int"),
    "huge size": (lambda meta: meta | {"info": {**meta["info"], "image_size": 10**9}}, r"image\.npy is damaged"),
    "kinds": (lambda meta: meta | {"info": {**meta["info"], "factors": {"x": []}}}, "its factor 'x'"),
    "no factors": (lambda meta: meta | {"info": {**meta["info"], "factors": None}}, "NoneType, not dict"),
}  # fmt: skip


@pytest.mark.parametrize("kind", WRONG_META)
def test_what_a_folder_says_of_itself_is_checked(kind: str, folder: Path) -> None:
    change, match = WRONG_META[kind]
    path = folder / "meta.json"
    changed = change(json.loads(path.read_text()))
    path.write_text("[" * 100_000 if changed == "deep" else json.dumps(changed))
    refused(folder, match)


def test_a_full_disk_is_noticed_before_anything_is_stored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UserError, match=r"they need .* MiB and .* MiB are free.*--count"):
        store(Tetrominoes(length=10**14), tmp_path / "s")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(UserError, match=r"Cannot store 3 scenes .*No space left"):
        store(Tetrominoes(length=3), tmp_path / "s")
    assert not list(tmp_path.iterdir())


def test_a_disk_that_fills_up_keeps_what_is_stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a file system that cannot reserve space, the rows find out; the chunks before them are kept."""

    def unsupported(*_: object) -> None:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))

    synced = []
    original = os.fsync

    def full(file: int) -> None:
        synced.append(file)
        if len(synced) == 15:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        original(file)

    monkeypatch.setattr(os, "posix_fallocate", unsupported)
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match=r"No space left on device.*run the command again to go on"):
        store(Tetrominoes(length=1500), tmp_path / "s")
    assert not (tmp_path / "s").exists()
    store(Tetrominoes(length=1500), tmp_path / "s")
    assert np.array_equal(
        StoredScenes(tmp_path / "s").arrays(1400)["x"], Tetrominoes(length=1500).arrays(1400)["x"]
    )


def test_files_that_may_not_grow_give_one_line(
    tmp_path: Path, fresh_emorl: Callable[..., CompletedProcess[str]]
) -> None:
    def small_files() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))

    result = fresh_emorl(
        "data", "store", "tetrominoes", "--count", 1000, "--out", "s", preexec_fn=small_files
    )
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("emorl: Cannot store 1000 scenes")
    assert "Traceback" not in result.stderr
    assert not list(tmp_path.iterdir())


def test_folders_of_others_are_left_alone(tmp_path: Path) -> None:
    theirs = tmp_path / "s.partial"
    theirs.mkdir()
    (theirs / "image.npy").write_bytes(b"precious")
    for attempt in (
        lambda: store(Tetrominoes(length=3), tmp_path / "s"),
        StoreWriter(tmp_path / "s").__enter__,
    ):
        with pytest.raises(UserError, match="in the way"):
            attempt()
    assert (theirs / "image.npy").read_bytes() == b"precious"
    (theirs / "image.npy").unlink()
    store(Tetrominoes(length=3), tmp_path / "s")
    (tmp_path / "link").symlink_to(tmp_path / "nowhere")
    with pytest.raises(UserError, match="exists already"):
        store(Tetrominoes(length=3), tmp_path / "link")


@pytest.mark.parametrize(
    "plan", ["{", "[]", "{}", '{"steps": ["mine"]}', '{"done": 3}', '{"done": [[]]}', '{"done": [7]}']
)
def test_a_damaged_plan_is_not_followed(plan: str, tmp_path: Path) -> None:
    (tmp_path / "s.partial").mkdir()
    (tmp_path / "s.partial" / "plan.json").write_text(plan)
    (tmp_path / "s.partial" / "image.npy").write_text("mine")
    with pytest.raises(UserError, match=r"s\.partial"):
        store(Tetrominoes(length=3), tmp_path / "s")
    assert (tmp_path / "s.partial" / "image.npy").read_text() == "mine"


def test_a_stream_does_not_delete_an_unfinished_store(tmp_path: Path) -> None:
    (tmp_path / "s.partial").mkdir()
    (tmp_path / "s.partial" / "plan.json").write_text('{"done": []}')
    with pytest.raises(UserError, match="unfinished store of other scenes"), StoreWriter(tmp_path / "s"):
        pass
    assert (tmp_path / "s.partial" / "plan.json").exists()


def test_every_scene_of_a_stream_is_made_like_the_first(tmp_path: Path) -> None:
    scene: Arrays = {"image": np.zeros((2, 2, 3), dtype=np.uint8), "x": np.zeros(3, dtype=np.float32)}
    refused: list[Arrays] = [
        scene | {"x": np.zeros(4, dtype=np.float32)},
        scene | {"x": np.zeros(3)},
        {"image": scene["image"]},
    ]
    for wrong in refused:
        with StoreWriter(tmp_path / "s") as writer:
            writer.add(scene)
            with pytest.raises(UserError, match="the first one of"):
                writer.add(wrong)
        assert not list(tmp_path.iterdir())
