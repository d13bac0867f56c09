"""The cards of released weights, as formats.py has files of data."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from corpus import Format, Make

from emorl.runs import run as runs
from emorl.runs.run import Run

IMAGE = torch.rand(1, 3, 35, 35, generator=torch.Generator().manual_seed(0))


def edited(edit: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """Returns what does `edit` to a file of JSON."""

    def change(content: bytes) -> bytes:
        values = json.loads(content)
        edit(values)
        return json.dumps(values).encode()

    return change


def make_card(folder: Path, change: Callable[[bytes], bytes] = lambda content: content) -> Path:
    """Released weights of one name; the card alone is damaged further."""
    shipped = runs.FOLDER / "efficient-morl" / "tetrominoes"
    (folder / "a").mkdir()
    shutil.copy(shipped.with_suffix(".safetensors"), folder / "a" / "b.safetensors")
    (folder / "a" / "b.json").write_bytes(change(shipped.with_suffix(".json").read_bytes()))
    return folder / "a" / "b.json"


def read_card(path: Path) -> None:
    own, runs.FOLDER = runs.FOLDER, path.parents[1]
    try:
        assert all(f"{runs.card_of(name)['scores']['ari']:.3f}" for name in runs.released())
        run = Run.open("a/b")
        assert isinstance(run.scores, dict)
        assert isinstance(run.environment, dict)
        assert run.steps_done > 0
        assert run.cpu_minutes is None or run.cpu_minutes >= 0
        assert run.model.decompose(IMAGE, seed=0).image.isfinite().all()
    finally:
        runs.FOLDER = own


CARDS: dict[str, Callable[[bytes], bytes]] = {
    name: edited(edit)
    for name, edit in {
        "no settings": lambda card: card.pop("config"),
        "no checksum": lambda card: card.pop("sha256"),
        "no scores": lambda card: card.pop("scores"),
        "scores are a list": lambda card: card.update(scores=[1]),
        "scores are text": lambda card: card["scores"].update(ari="high"),
        "environment is text": lambda card: card.update(environment="here"),
        "minutes are text": lambda card: card.update(cpu_minutes="long"),
        "settings are a list": lambda card: card.update(config=[]),
    }.items()
}


def card_with(change: Callable[[bytes], bytes]) -> Make:
    return lambda folder: make_card(folder, change)


CARD = Format(make_card, read_card, {name: card_with(change) for name, change in CARDS.items()})
