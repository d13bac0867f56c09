"""emorl list"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import tyro

from emorl.data import DATASETS
from emorl.models import MODELS
from emorl.runs.presets import PRESETS
from emorl.runs.run import card_of, released


def list_command(
    what: tyro.conf.Positional[Literal["all", "models", "datasets", "presets", "weights"]] = "all",
) -> None:
    """Name the models, data sets, presets and released weights there are.

    Args:
        what: All of them, or one kind.
    """
    kinds: dict[str, Iterator[tuple[str, str]]] = {
        "models": ((name, (model.__doc__ or "").splitlines()[0]) for name, model in MODELS.items()),
        "datasets": ((name, make(length=1).info.description) for name, make in DATASETS.items()),
        "presets": (
            (name, f"{run.train.steps} steps of {run.train.batch_size} images")
            for name, run in PRESETS.items()
        ),
        "weights": (
            (name, f"ARI {card_of(name)['scores']['ari']:.3f} on held-out scenes") for name in released()
        ),
    }
    for kind, lines in kinds.items():
        if what in ("all", kind):
            print(kind)
            for name, text in lines:
                print(f"  {name:<34} {text}")
