"""emorl: discovers the objects in images without labels (EfficientMORL, Emami et al., ICML 2021).

>>> model = emorl.load("runs/demo")
>>> slots = model.decompose(images)  # images (B, 3, H, W) in [0, 1]
>>> slots.masks, slots.components, slots.slots
"""

from __future__ import annotations

from emorl.data import DATASETS, DataConfig, open_dataset
from emorl.errors import UserError
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.models import MODELS, build
from emorl.models.base import Model
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.presets import PRESETS
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
    "evaluate",
    "load",
    "open_dataset",
    "train",
]
