"""Edits as pictures, as in the paper's appendix B: a scene before and after one number of one slot was changed."""

from __future__ import annotations

import torch

from emorl.data.base import SceneDataset
from emorl.evaluation.activeness import slots_of, swept
from emorl.evaluation.leakage import Edit
from emorl.models.base import Model
from emorl.plots.pictures import segmentation_pixels, to_pixels
from emorl.plots.panels import Pixels

TITLES = ("image", "rebuilt", "edited slot", "after", "change", "masks", "masks after")
CONTRAST = 3.0  # by which the change is enlarged, so that a faint one is seen


@torch.no_grad()
def edit_row(model: Model, scenes: SceneDataset, edit: Edit) -> list[Pixels]:
    """Panels for one of the edits that `leakage` of the same model and scenes has made."""
    slots = slots_of(model, scenes, images=edit.scene + 1)[edit.scene]
    copies = swept(slots, edit.slot, edit.dim, slots.new_tensor([slots[edit.slot, edit.dim], edit.value]))
    found = model.decode(copies)  # as it was, and changed
    change = (found.image[1] - found.image[0]).abs().mean(dim=0, keepdim=True).expand(3, -1, -1)
    mask = found.masks[0, edit.slot]
    return [
        to_pixels(scenes[edit.scene].image),
        to_pixels(found.image[0]),
        to_pixels(mask * found.components[0, edit.slot] + (1 - mask)),
        to_pixels(found.image[1]),
        to_pixels(CONTRAST * change),
        *(segmentation_pixels(segmentation, has_background=False) for segmentation in found.segmentation),
    ]
