"""Pictures that a user names on the command line: files, folders and patterns; and where the results of each go."""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from itertools import chain, count
from pathlib import Path

from emorl.data.folder import image_names
from emorl.data.images import SUFFIXES, check_picture
from emorl.errors import Unreadable, UserError, first_few
from emorl.files import real_path
from emorl.types import Progress


def find_pictures(places: Sequence[str], *, without: Path) -> list[Path]:
    """The pictures in `places`, which are files, folders with all below them, or patterns such as "photos/**/*.jpg".

    Each is there once, in the order in which they are named. What lies in the folder `without`, where results go, is
    left out if it was not named itself.
    """
    found: dict[Path, Path] = {}  # by where it is, whatever its names
    for place in places:
        for path in matching(place):
            if path.is_dir():
                inside = [path / name for name in sorted(image_names(path))]
                for one in inside:
                    if not real_path(one).is_relative_to(real_path(without)):
                        found.setdefault(real_path(one), one)
            else:
                found.setdefault(real_path(path), path)
    if not found:
        raise UserError(
            "Name at least one image, or a folder of images: emorl decompose RUN PATH... --out DIR"
        )
    return list(found.values())


def matching(place: str) -> list[Path]:
    """The path itself if there is one of that name, or what a pattern matches."""
    if os.path.lexists(place) or not glob.has_magic(place):
        return [Path(place)]
    matches = [Path(match) for match in sorted(glob.glob(place, recursive=True))]
    pictures = [path for path in matches if path.name.lower().endswith(SUFFIXES) and not path.is_dir()]
    if not pictures:
        raise UserError(f"No image matches {place} ({', '.join(SUFFIXES)}).")
    return pictures


def readable_pictures(
    paths: Sequence[Path], *, skip_damaged: bool, progress: Progress
) -> tuple[list[Path], list[Unreadable]]:
    """Decodes every picture. Returns those that can be read and, with `skip_damaged`, what is wrong with others.

    Without it, raises UserError naming them.
    """
    good, bad = [], []
    for number, path in enumerate(paths, start=1):
        try:
            check_picture(path)
            good.append(path)
        except Unreadable as error:
            bad.append(error)
        progress(number, len(paths))
    if len(bad) == 1 and not (skip_damaged and good):
        raise bad[0] if len(paths) == 1 else UserError(f"{bad[0]} --skip-damaged leaves it out.")
    if bad and not (skip_damaged and good):
        named = first_few([f"{error.args[0]} ({error.reason})" for error in bad])
        advice = "" if not good else " --skip-damaged leaves them out."
        raise UserError(f"{len(bad)} images cannot be read: {named}.{advice}")
    return good, bad


def result_folders(paths: Sequence[Path], out: Path) -> list[Path]:
    """A folder in `out` for the results of each picture: its path without what all have in common.

    It is named without the suffix where that is enough to tell it from others.
    """
    whole = [Path(os.path.abspath(path)) for path in paths]
    common = Path(os.path.commonpath([path.parent for path in whole]))
    relative = [path.relative_to(common) for path in whole]
    taken: set[str] = set()  # some systems do not tell A from a
    stems = [str(path.with_suffix("")).casefold() for path in relative]
    folders = []
    for path, stem in zip(relative, stems, strict=True):
        plain = [path.with_suffix("")] if stems.count(stem) == 1 else []
        candidate = next(one for one in chain(plain, names_of(path)) if str(one).casefold() not in taken)
        taken.add(str(candidate).casefold())
        folders.append(out / candidate)
    return folders


def names_of(path: Path) -> Iterator[Path]:
    """Other names for the results of a picture: with its suffix, then with numbers."""
    return chain([path], (path.with_name(f"{path.name}-{number}") for number in count(1)))
