"""PRESETS: settings by name, as data.

"model/data set" is for small machines, and what trained the released weights of that name; "-long" goes on from those
weights, for sprites by way of "-middle"; "-paper" has the published hyper-parameters; "-tiny" is for tests.
"""

from __future__ import annotations

import reprlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from emorl.errors import UserError, nearest
from emorl.runs.config import RunConfig
from emorl.runs.presets import efficient_morl, genesis, iodine, monet, slot_attention

PRESETS: dict[str, RunConfig] = {
    **efficient_morl.PRESETS,
    **slot_attention.PRESETS,
    **genesis.PRESETS,
    **monet.PRESETS,
    **iodine.PRESETS,
}


def preset(name: str) -> RunConfig:
    """Returns the preset of that name. UserError if there is none."""
    # Plain names were spelled with -fast in version 0.1.
    found = PRESETS.get(name) or PRESETS.get(name.removesuffix("-fast"))
    if found is None:
        raise UserError(f"There is no preset {name!r}{nearest(name, PRESETS)}")
    return found


def run_of(source: RunConfig | str | Path, settings: Mapping[str, Any] | None = None) -> RunConfig:
    """Returns a configuration, the preset of that name, or what is in that config.json, with some settings changed.

    `settings` are by dotted name: {"train.steps": 100}. Raises UserError for a name or a value that is wrong.
    """
    match source:
        case RunConfig():
            run = source
        case str() if source in PRESETS or not (source.endswith(".json") or Path(source).exists()):
            run = preset(source)
        case str() | Path():
            run = RunConfig.read(Path(source))
        case _:
            raise UserError(
                "A training is told by a preset's name, a config.json or a RunConfig, not by "
                f"{reprlib.repr(source)}."
            )
    return run.changed(settings or {})


__all__ = ["PRESETS", "preset", "run_of"]
