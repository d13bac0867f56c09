"""A folder of one's own images, and of masks if there are any, as scenes."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

import numpy as np

from emorl.data.base import Arrays, DatasetInfo, SceneDataset
from emorl.data.fit import Fit, fitted
from emorl.data.images import SUFFIXES, check_picture, read_ids, read_pixels
from emorl.errors import Unreadable, UserError
from emorl.files import cause
from emorl.types import Progress, silent

MASKS = "masks"
HELD_OUT = 0.1  # share of pictures that are for test, and again for validation
MOST_HELD_OUT = 320  # test pictures at most, and validation pictures: as many as generated data sets have
REMEMBERED = 20_000  # scenes kept in memory once decoded; at 64x64 pixels that is 330 MB


class FolderScenes(SceneDataset):
    """The images of a folder and its sub-folders, made square: those for training, then test, then validation.

    `names` are the file names in that order, `sizes` the number of images in each split; of a `whole` folder, all are
    for test. The mask of `cats/tom.jpg` is `masks/cats/tom.png`; there are masks for all images or for none.
    """

    def __init__(
        self,
        path: Path,
        *,
        size: int,
        seed: int = 0,
        fit: Fit = "crop",
        skip_damaged: bool = False,
        whole: bool = False,
    ) -> None:
        self.path, self.size, self.fit = path, size, fit
        names = image_names(path)
        if skip_damaged:  # splits go by names, so what is left out moves nothing else
            damaged = {name for name, _, _ in problems(path)}
            names = [name for name in names if name not in damaged]
        splits = {"test": sorted(names)} if whole else split_by_name(names, path, seed=seed)
        self.names = [name for names in splits.values() for name in names]
        self.sizes = {split: len(names) for split, names in splits.items()}
        self.masks = path / MASKS
        self.remembered: dict[int, Arrays] = {}
        self.info = DatasetInfo(
            name="folder",
            image_size=size,
            max_objects=255,
            factors={},
            description=f"{len(self.names)} images",
            origin=f"seed {seed}",
            has_masks=os.path.isdir(self.masks),
        )

    def __len__(self) -> int:
        return len(self.names)

    def arrays(self, index: int) -> Arrays:
        if index not in self.remembered:
            scene = self.read(self.names[index])
            if len(self.remembered) >= REMEMBERED:
                return scene
            self.remembered[index] = scene
        return self.remembered[index]

    def read(self, name: str) -> Arrays:
        """Returns image `name` and its segmentation as squares; raises UserError where they cannot be read."""
        image = read_pixels(self.path / name)
        ids = np.zeros(image.shape[:2], dtype=np.uint8)
        if self.info.has_masks:
            mask = mask_of(self.path, name)
            ids = read_ids(mask)
            if ids.shape != image.shape[:2]:
                raise UserError(f"{mask} is {other_size(ids.shape, image.shape)}.")
        segmentation = fitted(ids, self.size, self.fit, smooth=False)
        return {"image": fitted(image, self.size, self.fit), "segmentation": segmentation}


def image_names(path: Path) -> list[str]:
    """Returns the names, relative to `path`, of all images below it; masks and hidden files are left out."""
    found = []

    def refuse(error: OSError) -> None:
        raise Unreadable(error.filename, cause(error)) from None

    if not os.path.isdir(path):
        raise UserError(f"{path} is not a folder of images.")
    for folder, folders, files in os.walk(path, onerror=refuse):
        relative = Path(folder).relative_to(path)
        folders[:] = [name for name in folders if name[0] != "." and (relative / name) != Path(MASKS)]
        names = [name for name in files if name[0] != "." and name.lower().endswith(SUFFIXES)]
        found += [(relative / name).as_posix() for name in names]
    if not found:
        raise UserError(f"{path} holds no images ({', '.join(SUFFIXES)}).")
    return found


def split_by_name(names: list[str], path: Path, *, seed: int) -> dict[str, list[str]]:
    """Shares pictures out by a hash of their names: about a tenth each for test and validation, 320 at most.

    A picture that is added moves no other one from training to test or validation. Nor does one that is removed, unless
    it was the only one of its split or one of 320, where the next one takes its place.
    """
    if len(names) < 3:
        raise UserError(
            f"{path} holds {len(names)} images; training, test and validation need at least one each."
        )
    draws = {name: draw(name, seed) for name in names}
    order = sorted(names, key=lambda name: (draws[name], name))
    test = [name for name in order if draws[name] < HELD_OUT][:MOST_HELD_OUT] or order[:1]
    order = order[len(test) :]
    validation = [name for name in order if HELD_OUT <= draws[name] < 2 * HELD_OUT][:MOST_HELD_OUT] or order[
        :1
    ]
    held_out = {*test, *validation}
    train = [name for name in order if name not in held_out]
    if not train:
        raise UserError(f"{path} holds {len(names)} images, and chance leaves none for training; add others.")
    return {"train": train, "test": test, "validation": validation}


def draw(name: str, seed: int) -> float:
    """Returns a number from 0 to 1 that depends on `name` and `seed` alone."""
    digest = hashlib.blake2b(os.fsencode(name), key=str(seed).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big") / 2**64


def damaged_pictures(path: Path, *, progress: Progress = silent) -> list[tuple[str, str]]:
    """Returns the name of each picture in a folder that cannot be used, or of its mask, with the reason."""
    return [(culprit, reason) for _, culprit, reason in problems(path, progress=progress)]


def problems(path: Path, *, progress: Progress = silent) -> list[tuple[str, str, str]]:
    """Returns each picture that cannot be used, the name of the culprit, which is it or its mask, and the reason.

    What was found is remembered as long as no file changes.
    """
    names = sorted(image_names(path))
    state = tuple((name, file_state(path / name), file_state(mask_of(path, name))) for name in names)
    if (known := FOUND.get(path)) is None or known[0] != state:
        has_masks = os.path.isdir(path / MASKS)
        found = []
        for number, name in enumerate(names, start=1):
            if (problem := problem_of(path, name, has_masks=has_masks)) is not None:
                found.append((name, *problem))
            progress(number, len(names))
        FOUND[path] = known = state, found
    return known[1]


FOUND: dict[Path, tuple[object, list[tuple[str, str, str]]]] = {}  # folder -> its state and its problems then


def file_state(path: Path) -> tuple[int, int] | None:
    """Returns when a file was changed and how long it is; None if there is none."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size


def problem_of(path: Path, name: str, *, has_masks: bool) -> tuple[str, str] | None:
    """Returns the culprit and the reason if the picture `name`, or its mask, cannot be used."""
    mask = mask_of(path, name)
    culprit = name
    try:
        width, height = check_picture(path / name)
        if has_masks:
            culprit = mask.relative_to(path).as_posix()
            shape = read_ids(mask).shape
            if shape != (height, width):
                return culprit, other_size(shape, (height, width))
    except Unreadable as error:
        return culprit, error.reason
    except UserError as error:
        return culprit, str(error)
    return None


def mask_of(path: Path, name: str) -> Path:
    """Returns the path of the mask of image `name` in the folder `path`."""
    return (path / MASKS / name).with_suffix(".png")


def other_size(mask: tuple[int, ...], image: tuple[int, ...]) -> str:
    """Returns the words for a mask whose shape (H, W) is not that of its image."""
    return f"{mask[1]}x{mask[0]}; its image is {image[1]}x{image[0]}"
