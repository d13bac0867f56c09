"""load(): a trained model from a run directory."""

from __future__ import annotations

from pathlib import Path

from emorl.errors import UserError
from emorl.models.base import Model
from emorl.training.checkpoint import load_run
from emorl.training.run import RunConfig


def load(path_or_name: str | Path) -> Model:
    """Returns the trained model of a run directory, ready for `decompose`."""
    return load_with_config(path_or_name)[0]


def load_with_config(path_or_name: str | Path) -> tuple[Model, RunConfig]:
    """Returns the model and what it was trained with."""
    path = Path(path_or_name)
    if not path.is_dir():
        raise UserError(
            f"There is no run directory {str(path_or_name)!r}. `emorl train PRESET --out DIR` makes one."
        )
    return load_run(path)
