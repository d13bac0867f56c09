"""A folder of one's own images, and of masks if there are any, as scenes."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np

from emorl.data.base import Arrays, DatasetInfo, SceneDataset
from emorl.data.images import fit, read_ids, read_pixels
from emorl.errors import UserError

SUFFIXES = (".png", ".jpg", ".jpeg", ".webp")
MASKS = "masks"
REMEMBERED = 20_000  # scenes kept in memory once decoded; at 64x64 pixels that is 330 MB


class FolderScenes(SceneDataset):
    """The images of a folder and its sub-folders, cut square and resized, in an order that `seed` decides.

    The mask of `cats/tom.jpg` is `masks/cats/tom.png`; there are masks for all images or for none.
    """

    def __init__(self, path: Path, *, size: int, seed: int = 0) -> None:
        self.path, self.size = path, size
        names = sorted(image_names(path))
        if not names:
            raise UserError(f"{path} holds no images ({', '.join(SUFFIXES)}).")
        order = np.random.default_rng(seed).permutation(len(names))
        self.names = [names[index] for index in order]
        self.masks = path / MASKS
        self.remembered: dict[int, Arrays] = {}
        self.info = DatasetInfo(
            name="folder",
            image_size=size,
            max_objects=255,
            factors={},
            description=f"{len(names)} images",
            origin=f"seed {seed}",
            has_masks=self.masks.is_dir(),
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
            mask = (self.masks / name).with_suffix(".png")
            ids = read_ids(mask)
            if ids.shape != image.shape[:2]:
                raise UserError(
                    f"{mask} is {ids.shape[1]}x{ids.shape[0]}; its image is {image.shape[1]}x{image.shape[0]}."
                )
        return {"image": fit(image, self.size), "segmentation": fit(ids, self.size, smooth=False)}


def image_names(path: Path) -> list[str]:
    """Names, relative to `path`, of all images below it; masks and hidden files are left out."""
    found = []

    def refuse(error: OSError) -> None:
        raise UserError(f"Cannot read {error.filename}: {error.strerror}.") from None

    if not path.is_dir():
        raise UserError(f"{path} is not a folder of images.")
    for folder, folders, files in os.walk(path, onerror=refuse):
        relative = Path(folder).relative_to(path)
        folders[:] = [name for name in folders if name[0] != "." and (relative / name) != Path(MASKS)]
        names = [name for name in files if name[0] != "." and name.lower().endswith(SUFFIXES)]
        found += [str(relative / name) for name in names]
    return found


def split_sizes(count: int, path: Path) -> dict[str, int]:
    """A tenth of the images, 320 at most, is for the test, and as many for validation."""
    held_out = min(320, max(1, count // 10))
    if count < 3:
        raise UserError(f"{path} holds {count} images; training, test and validation need at least one each.")
    return {"train": count - 2 * held_out, "test": held_out, "validation": held_out}
