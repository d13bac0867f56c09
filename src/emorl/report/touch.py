"""The parts of a report that answer to the pointer: a scene with its steps of inference, and traversals.

Their pictures are on one sheet each, from which the page's script takes what is to be seen. Without a script, the page
shows the same in rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from PIL import Image

from emorl.data.base import SceneDataset
from emorl.evaluation.inference import infer
from emorl.models.base import Model
from emorl.panels import Pixels, palette, to_pixels
from emorl.plots.files import data_address
from emorl.plots.scenes import step_names
from emorl.plots.traversals import Traversal
from emorl.probability import scene_seeds


@dataclass(frozen=True)
class Touch:
    """One scene: point at a slot to light it up, and go through the steps of inference.

    The sheet has a row for each step: what its slots rebuild, then the mask of each slot; above them is the image.
    """

    kind: ClassVar[str] = "touch"
    sheet: str  # a data: address
    side: int
    steps: Sequence[str]
    colors: Sequence[str]  # of slots, as CSS
    alt: str
    caption: str
    title: str = ""
    span: int = 12


@dataclass(frozen=True)
class Follow:
    """Traversals that follow the pointer: a row of the sheet for each dimension, a column for each value."""

    kind: ClassVar[str] = "follow"
    sheet: str
    side: int
    names: Sequence[str]
    values: int
    alt: str
    caption: str
    title: str = ""
    span: int = 12


def touch(model: Model, scenes: SceneDataset, scene: int, *, caption: str, title: str) -> Touch:
    """A scene and the steps of its inference."""
    image = scenes[scene].image
    x = image[None].to(model.device)
    steps = infer(model, x, scene_seeds(0, [scene]), trace=True).steps
    K = steps[-1].masks.shape[1]
    rows = [[to_pixels(image)] * (1 + K)]
    rows += [
        [to_pixels(step.image[0]), *(to_pixels(mask.expand(3, -1, -1)) for mask in step.masks[0])]
        for step in steps
    ]
    colors = [f"rgb{tuple(color)}" for color in palette(K).tolist()]
    alt = f"Scene {scene}: its image, what its slots rebuild, and which slot owns each pixel"
    return Touch(sheet_of(rows), image.shape[-1], step_names(steps), colors, alt, caption, title)


def follow(traversal: Traversal, *, alt: str, caption: str, title: str) -> Follow:
    """Traversals of one slot."""
    rows = [[to_pixels(picture) for picture in row] for row in traversal.pictures]
    names = [f"z{d}" for d in traversal.dims]
    return Follow(sheet_of(rows), len(rows[0][0]), names, len(rows[0]), alt, caption, title)


def sheet_of(rows: Sequence[Sequence[Pixels]]) -> str:
    """Pictures of one size on one sheet, as a data: address."""
    whole = np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0)
    return data_address(Image.fromarray(whole))
