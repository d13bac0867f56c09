"""What else is in a run, as run_formats.py has most of it: the list of its pictures, and its lock."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

from corpus import Format

from emorl.data import SPLITS
from emorl.runs.directory import LOCK, PICTURES
from emorl.runs.lock import locked
from emorl.runs.own_pictures import remembered

NAMES = {"train": ["a.png", "b/c.png"], "test": ["d.png"], "validation": ["e.png"]}


def make_pictures(folder: Path, content: object = NAMES) -> Path:
    """What a run on a folder remembers of its pictures."""
    (folder / PICTURES).write_text(json.dumps(content))
    return folder / PICTURES


def read_pictures(path: Path) -> None:
    found = remembered(path)
    assert found
    assert all(isinstance(name, str) for name in found)
    assert set(found.values()) <= set(SPLITS)


LISTS: dict[str, object] = {
    "no splits": {},
    "names are numbers": {split: [1] for split in SPLITS},
    "names are lists": {split: [[]] for split in SPLITS},
    "a split is a number": NAMES | {"train": 1},
}


def make_lock(folder: Path) -> Path:
    """What a training that was killed has left."""
    (folder / LOCK).write_text("123\n")
    return folder / LOCK


def read_lock(path: Path) -> None:
    with locked(path.parent):
        assert path.is_file()
        assert not path.is_symlink()
    assert not path.exists()


OTHERS: dict[str, Format] = {
    "pictures": Format(
        make_pictures,
        read_pictures,
        {what: partial(make_pictures, content=content) for what, content in LISTS.items()},
    ),
    "lock": Format(make_lock, read_lock),
}
