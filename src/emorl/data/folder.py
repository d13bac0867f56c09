"""A folder of one's own images, and of masks if there are any, as scenes."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from emorl.data.base import Arrays, DatasetInfo, SceneDataset
from emorl.data.images import SUFFIXES, check_picture, fit, read_ids, read_pixels
from emorl.errors import Unreadable, UserError
from emorl.files import cause

MASKS = "masks"
HELD_OUT = 0.1  # share of pictures that are for test, and again for validation
MOST_HELD_OUT = 320  # test pictures at most, and validation pictures: as many as generated data sets have
REMEMBERED = 20_000  # scenes kept in memory once decoded; at 64x64 pixels that is 330 MB


class FolderScenes(SceneDataset):
    """The images of a folder and its sub-folders, cut square and resized: training, then test, then validation.

    `names` are the file names in that order, `sizes` the number of images in each split. The mask of `cats/tom.jpg` is
    `masks/cats/tom.png`; there are masks for all images or for none.
    """

    def __init__(self, path: Path, *, size: int, seed: int = 0) -> None:
        self.path, self.size = path, size
        splits = split_by_name(image_names(path), path, seed=seed)
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
        image = read_pixels(self.path / name)
        ids = np.zeros(image.shape[:2], dtype=np.uint8)
        if self.info.has_masks:
            mask = mask_of(self.path, name)
            ids = read_ids(mask)
            if ids.shape != image.shape[:2]:
                raise UserError(f"{mask} is {other_size(ids.shape, image.shape)}.")
        return {"image": fit(image, self.size), "segmentation": fit(ids, self.size, smooth=False)}


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


def damaged_pictures(
    path: Path, *, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[tuple[str, str]]:
    """Returns the name of each picture in a folder that cannot be used, masks too, with the reason."""
    found = []
    names = sorted(image_names(path))
    has_masks = os.path.isdir(path / MASKS)
    for number, name in enumerate(names, start=1):
        mask = mask_of(path, name)
        culprit = name
        try:
            width, height = check_picture(path / name)
            if has_masks:
                culprit = mask.relative_to(path).as_posix()
                shape = read_ids(mask).shape
                if shape != (height, width):
                    found.append((culprit, other_size(shape, (height, width))))
        except Unreadable as error:
            found.append((culprit, error.reason))
        except UserError as error:
            found.append((culprit, str(error)))
        progress(number, len(names))
    return found


def mask_of(path: Path, name: str) -> Path:
    """Returns the path of the mask of image `name` in the folder `path`."""
    return (path / MASKS / name).with_suffix(".png")


def other_size(mask: tuple[int, ...], image: tuple[int, ...]) -> str:
    """Returns the words for a mask whose shape (H, W) is not that of its image."""
    return f"{mask[1]}x{mask[0]}; its image is {image[1]}x{image[0]}"
