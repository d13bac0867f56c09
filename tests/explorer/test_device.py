"""The explorer on another device than the CPU: what it makes of numbers must be made there, too."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any

import pytest
import torch

from emorl.data.base import Array
from emorl.explorer.catalogue import Catalogue
from emorl.explorer.meaning import study
from emorl.explorer.messages import read_reply, read_request
from emorl.explorer.session import Session
from emorl.runs.run import Run
from explorer_server import BLOCKS, SPRITES
from other_device import DEVICE, OtherDevice


@pytest.mark.parametrize("name", [BLOCKS, SPRITES])
def test_everything_is_computed_on_the_device_of_the_model(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With what a visitor can do, and nothing left on the CPU: another device would refuse it."""
    monkeypatch.setattr(torch.__future__, "get_swap_module_params_on_conversion", lambda: True)
    catalogue = Catalogue.of([Run.open(name)], DEVICE)
    entry, visitor = catalogue.entries[0], Session(catalogue)

    def ask(kind: str, **fields: object) -> tuple[dict[str, Any], dict[str, Array]]:
        reply = read_reply(visitor.answer(read_request(json.dumps({"kind": kind, **fields}))))
        assert reply[0]["kind"] != "error", reply
        return reply

    with OtherDevice():
        entry.studying = Future()
        entry.studying.set_result(study(entry.model, entry.scenes(None)))
        scene = {"model": name, "data": None, "slots": None, "steps": None, "seed": 0, "upload": False}
        opened, _ = ask("open", index=1, **scene)
        assert visitor.shown.slots.device == DEVICE
        a, b = [k for k, place in enumerate(opened["places"]) if place][:2]
        ask("swap", slot=a, other=b)
        ask("move", slot=a, down=0.1, right=0.1, grow=0, turn=0, stroke=1)
        ask("move", slot=a, down=0, right=0, grow=0, turn=0.2, stroke=2)
        ask("remove", slot=b, removed=True)
        rows = ask("sliders", slot=a)[0]["rows"]
        ask("set", slot=a, dim=rows[0]["dim"], value=rows[0]["high"], stroke=3)
        edited, _ = ask("undo")
        ask("traverse", slot=a, dim=rows[0]["dim"], gif=False)
        ask("trace")
        ask("donor", index=2)
        ask("copy", slot=a, **{"from": 0})
        ask("restore", edits=edited["edited"], removed=edited["removed"])
