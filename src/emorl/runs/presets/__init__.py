"""PRESETS: the paper's hyper-parameter tables, and ours for small machines, as data."""

from __future__ import annotations

from emorl.runs.config import RunConfig
from emorl.runs.presets import efficient_morl, genesis, genesis_v2, iodine, monet, slot_autoencoders

PRESETS: dict[str, RunConfig] = {
    **efficient_morl.PRESETS,
    **slot_autoencoders.PRESETS,
    **genesis.PRESETS,
    **monet.PRESETS,
    **iodine.PRESETS,
    **genesis_v2.PRESETS,
}

__all__ = ["PRESETS"]
