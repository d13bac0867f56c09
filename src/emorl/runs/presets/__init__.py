"""PRESETS: settings by name, as data.

"model/data set" is for small machines, and what trained the released weights of that name;
"-long" goes on from those weights; "-paper" has the published hyper-parameters; "-tiny" is for tests.
"""

from __future__ import annotations

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


__all__ = ["PRESETS", "preset"]
