"""A run on a folder of pictures remembers their names, and says when the folder has changed since."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from pathlib import Path

from emorl.data import FOLDER, SPLITS, DataConfig, open_folder
from emorl.data.folder import damaged_pictures
from emorl.errors import UserError, first_few
from emorl.files import read_json, write_json
from emorl.runs.directory import PICTURES
from emorl.types import Progress, silent

Names = dict[str, str]  # of each picture -> the split that it is in
NAMED = 3  # pictures of one kind of change in a message


def check_pictures(data: DataConfig, *, progress: Progress = silent) -> None:
    """Raises UserError naming the pictures of a folder that cannot be read; other data is not looked at.

    Warns instead where damaged ones are left out.
    """
    if data.name != FOLDER or data.path is None:
        return
    if bad := damaged_pictures(Path(data.path), progress=progress):
        named = first_few([f"{name} ({reason})" for name, reason in bad])
        if data.skip_damaged:
            warnings.warn(f"Left out of {data.path}: {named}.", stacklevel=2)
        else:
            raise UserError(
                f"Repair or remove what cannot be used in {data.path}, or leave it out with --skip-damaged: "
                f"{named}."
            )


def remember_pictures(directory: Path, data: DataConfig) -> None:
    """Writes which pictures are in which split, if the data is a folder of them."""
    if data.name == FOLDER:
        found = names_in(data)
        splits: dict[str, list[str]] = {split: [] for split in SPLITS}
        for name, split in found.items():
            splits[split].append(name)
        write_json(directory / PICTURES, splits)


def warn_of_changes(directory: Path, data: DataConfig) -> None:
    """Warns in one line if pictures were added, removed or moved since the run began; older runs do not know."""
    path = directory / PICTURES
    if data.name != FOLDER or not path.exists():
        return
    before, now = remembered(path), names_in(data)
    changes = [
        counted("added", now.keys() - before.keys()),
        counted("removed", before.keys() - now.keys()),
        counted(
            "in another split", (name for name in before.keys() & now.keys() if before[name] != now[name])
        ),
    ]
    if any(changes):
        warnings.warn(
            f"The pictures in {data.path} are not those that {directory} began with: "
            f"{'; '.join(filter(None, changes))}.",
            stacklevel=2,
        )


def names_in(data: DataConfig) -> Names:
    """Returns the pictures that are in the folder now."""
    scenes = open_folder(data)
    splits = [split for split, size in scenes.sizes.items() for _ in range(size)]
    return dict(zip(scenes.names, splits, strict=True))


def remembered(path: Path) -> Names:
    """Returns the pictures that were in the folder then. Raises UserError if the file is damaged."""
    values = read_json(path)
    are_lists = set(values) == set(SPLITS) and all(isinstance(found, list) for found in values.values())
    names = [(name, split) for split, found in values.items() for name in found] if are_lists else []
    if not names or not all(isinstance(name, str) for name, _ in names):
        raise UserError(f"{path} is damaged: it does not list the pictures of each split. Delete it.")
    return dict(names)


def counted(what: str, names: Iterable[str]) -> str:
    """Returns "2 added (a.png, b.png)", or nothing if there are none."""
    found = sorted(names)
    more = ", ..." if len(found) > NAMED else ""
    return f"{len(found)} {what} ({', '.join(found[:NAMED])}{more})" if found else ""
