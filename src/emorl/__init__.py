"""emorl: discovers the objects in images without labels (EfficientMORL, Emami et al., ICML 2021).

>>> found = emorl.decompose("photo.jpg")  # or arrays, tensors, PIL images, lists of them
>>> found.objects()  # a table: place, size, colour and latents of each
>>> found.masks, found.components, found.slots
"""

from __future__ import annotations

from emorl.data import DATASETS, DataConfig, open_dataset
from emorl.errors import UserError
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.models import MODELS, build
from emorl.models.base import Model
from emorl.pictures import decompose
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.presets import PRESETS
from emorl.runs.pretrained import from_pretrained, push_to_hub, save_pretrained
from emorl.runs.run import Run, load
from emorl.training.trainer import train
from emorl.types import Decomposition, Outcome, Scene
from emorl.version import __version__ as __version__

__all__ = [
    "DATASETS",
    "MODELS",
    "PRESETS",
    "DataConfig",
    "Decomposition",
    "Model",
    "Outcome",
    "Run",
    "RunConfig",
    "Scene",
    "Scores",
    "TrainConfig",
    "UserError",
    "build",
    "decompose",
    "evaluate",
    "from_pretrained",
    "load",
    "open_dataset",
    "push_to_hub",
    "save_pretrained",
    "train",
]
