"""load(): a trained model, from a run directory or by the name of released weights.

Released weights are named model/data set, whatever preset trained them. Beside `weights/<name>.safetensors` stands
`weights/<name>.json`, its card: configuration, data, scores, and the command that made it.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from emorl.config import read_json
from emorl.errors import UserError, nearest
from emorl.models import build
from emorl.models.base import Model
from emorl.training.checkpoint import load_run, load_weights, read_weights
from emorl.training.run import RunConfig

FOLDER = Path(__file__).parent / "weights"


def load(path_or_name: str | Path) -> Model:
    """Returns a trained model, ready for `decompose`: the one of a run directory, or released weights by name."""
    return load_with_config(path_or_name)[0]


def load_with_config(path_or_name: str | Path) -> tuple[Model, RunConfig]:
    """Returns the model and what it was trained with."""
    path, name = Path(path_or_name), str(path_or_name)
    if path.is_dir():
        return load_run(path)
    if name not in released():
        raise UserError(
            f"There is no run directory and no released model {name!r}{nearest(name, released())}"
        )
    card, weights = card_of(name), FOLDER / f"{name}.safetensors"
    if checksum(weights) != card["sha256"]:
        raise UserError(f"The released weights {weights} are damaged: install emorl again.")
    run = RunConfig.from_dict(card["config"])
    model = build(run.model)
    load_weights(model, read_weights(weights), source=weights)
    return model.eval(), run


def released() -> list[str]:
    """Names of the weights that come with the package."""
    return sorted(path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.json"))


def card_of(name: str) -> dict[str, Any]:
    """What is known of released weights."""
    return read_json(FOLDER / f"{name}.json")


def checksum(path: Path) -> str:
    """The sha256 of a file, in hexadecimal."""
    return hashlib.sha256(path.read_bytes()).hexdigest()
