"""Session: what one visitor looks at, and the answer to each of the visitor's requests."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from PIL import Image

from emorl.data.base import Array
from emorl.errors import UserError
from emorl.evaluation.inference import infer
from emorl.explorer.board import Board, Position
from emorl.explorer.catalogue import Catalogue, Entry, describe
from emorl.explorer.meaning import most_active, traversal, varied
from emorl.explorer.messages import Request, as_bytes, write_reply
from emorl.explorer.moves import Move
from emorl.explorer.uploads import read_upload
from emorl.objects import LEAST_SHARE
from emorl.panels import palette
from emorl.plots.files import as_gif
from emorl.types import Decomposition

SLIDERS = 8  # dimensions of a slot that get one
FRAMES = 16  # of a traversal, there and back
GIF_SIDE = 256  # of a saved animation, about


class Session:
    """One visitor. `answer` is called for one request at a time."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.entry: Entry | None = None
        self.board: Board | None = None
        self.donor: Board | None = None
        self.scene: dict[str, Any] = {}
        self.uploaded: Array | None = None  # as large as it came, so that each model can look at it
        self.answers = {
            "hello": self.hello,
            "open": self.open,
            "upload": self.upload,
            "restore": self.restore,
            "move": self.move,
            "set": self.set_number,
            "remove": self.remove,
            "swap": self.swap,
            "undo": self.undo,
            "redo": self.redo,
            "reset": self.reset,
            "sliders": self.sliders,
            "traverse": self.traverse,
            "trace": self.trace,
            "donor": self.show_donor,
            "copy": self.copy,
        }

    def answer(self, request: Request) -> bytes:
        """The reply to a request; a mistake is a reply, too."""
        try:
            return self.answers[request.kind](request)
        except UserError as error:
            return write_reply("error", {"message": str(error), "of": request.kind})

    @property
    def shown(self) -> Board:
        """What the visitor looks at. Raises UserError before a scene was opened."""
        if self.board is None:
            raise UserError("Open a scene first.")
        return self.board

    def slot(self, request: Request, name: str = "slot") -> int:
        """The slot that a request names."""
        k: int = request[name]
        if k >= len(self.shown.slots):
            raise UserError(f"There is no slot {k + 1}: this scene has {len(self.shown.slots)}.")
        return k

    def hello(self, request: Request) -> bytes:
        """The models to choose from."""
        colours = palette(24).tolist()
        return write_reply(
            "models",
            {"models": [entry.described() for entry in self.catalogue.entries], "palette": colours},
        )

    def upload(self, request: Request) -> bytes:
        """Keeps a picture; the page asks for it to be opened."""
        pixels = read_upload(request.content)
        side = min(1024, max(pixels.shape[:2]))
        thumbnail = Image.fromarray(pixels)
        thumbnail.thumbnail((side, side))
        self.uploaded = np.array(thumbnail)
        return write_reply("uploaded", {"width": pixels.shape[1], "height": pixels.shape[0]})

    def open(self, request: Request) -> bytes:
        """Takes a scene apart and shows it."""
        entry = self.catalogue.entry(request["model"])
        model = entry.model
        if request["upload"]:
            if self.uploaded is None:
                raise UserError("The picture is no longer here: drop it in again.")
            image, count = entry.fitted(self.uploaded), 0
            seed = request["seed"]
        else:
            scenes = entry.scenes(request["data"])
            index, count = request["index"] % len(scenes), len(scenes)
            image, seed = entry.picture(request["data"], index), request["seed"] * 1_000_003 + index
        options = {"num_slots": request["slots"], "num_steps": request["steps"]}
        if model.step_range is None:
            options["num_steps"] = None
        if model.has_fixed_slots:
            options["num_slots"] = None
        slots = infer(model, image[None], [seed], means=True, **options).steps[-1].slots[0]
        self.entry, self.donor = entry, None
        self.board = Board(model, image, slots)
        self.inference = {"image": image, "seed": seed, **options}
        self.scene = {
            "model": entry.name,
            "data": request["data"] or entry.data[0],
            "index": 0 if request["upload"] else index,
            "count": count,
            "upload": bool(request["upload"]),
            "seed": request["seed"],
            "slots": len(slots),
            "steps": request["steps"],
        }
        about = {"scene": self.scene, "about": describe(model)}
        return self.frame("scene", range(len(slots)), about, picture=as_bytes(image))

    def frame(self, kind: str, changed: Any, about: dict[str, Any] | None = None, **arrays: Any) -> bytes:
        """All masks, the picture, and what the slots that have `changed` look like."""
        board, changed = self.shown, list(changed)
        places = [board.place(k) for k in range(len(board.slots))]
        owner = board.masks.argmax(dim=0)
        area = [float((owner == k).float().mean()) for k in range(len(board.slots))]
        head = {
            **(about or {}),
            "changed": changed,
            "places": [None if p is None else [p.down, p.right, p.size, p.can_turn] for p in places],
            "area": area,
            "explained": board.explained(),
            "empty": [bool(board.masks[k].mean() < LEAST_SHARE / 2) for k in range(len(board.slots))],
            "removed": sorted(board.now.removed),
            "edited": {
                k: [round(value, 5) for value in board.slots[k].tolist()]
                for k in range(len(board.slots))
                if not torch.equal(board.slots[k], board.first.slots[k])
            },
            "can_undo": bool(board.done),
            "can_redo": bool(board.undone),
            "error": float((board.picture - board.image).square().mean()),
        }
        pictures = {"masks": as_bytes(board.masks), "result": as_bytes(board.picture)}
        if changed:
            pictures["looks"] = as_bytes(board.colours[changed])
        return write_reply(kind, head, {**arrays, **pictures})

    def restore(self, request: Request) -> bytes:
        """Edits that a link holds."""
        board = self.shown
        slots = board.first.slots.clone()
        for k, values in request["edits"].items():
            if k >= len(slots) or len(values) != slots.shape[1]:
                raise UserError("The link's edits are of another model or number of slots.")
            slots[k] = torch.tensor(values)
        removed = frozenset(request["removed"])
        if any(k >= len(slots) for k in removed) or len(removed) >= len(slots):
            raise UserError("The link removes slots that are not there.")
        return self.frame("frame", board.change(Position(slots, removed)))

    def move(self, request: Request) -> bytes:
        """Moves, resizes, turns."""
        move = Move(request["down"], request["right"], request["grow"], request["turn"])
        return self.frame("frame", self.guided().move(self.slot(request), move, request["stroke"]))

    def guided(self) -> Board:
        """What the visitor looks at, with all that is known by now of how its objects move."""
        board = self.shown
        assert self.entry is not None
        known = self.entry.study()
        board.guide = None if known is None else known.guide
        return board

    def set_number(self, request: Request) -> bytes:
        """A slider was moved."""
        k = self.slot(request)
        d = self.dimension(request)
        return self.frame("frame", self.shown.set_number(k, d, request["value"], request["stroke"]))

    def dimension(self, request: Request) -> int:
        """The dimension that a request names."""
        d: int = request["dim"]
        if d >= self.shown.slots.shape[1]:
            raise UserError(f"A slot has {self.shown.slots.shape[1]} numbers; there is no number {d}.")
        return d

    def remove(self, request: Request) -> bytes:
        """Takes a slot away or brings it back."""
        return self.frame("frame", self.shown.remove(self.slot(request), is_removed=request["removed"]))

    def swap(self, request: Request) -> bytes:
        """Two objects change places."""
        return self.frame("frame", self.guided().swap(self.slot(request), self.slot(request, "other")))

    def undo(self, request: Request) -> bytes:
        """One change back."""
        return self.frame("frame", self.shown.undo())

    def redo(self, request: Request) -> bytes:
        """One change forward."""
        return self.frame("frame", self.shown.redo())

    def reset(self, request: Request) -> bytes:
        """As inferred."""
        return self.frame("frame", self.shown.reset())

    def sliders(self, request: Request) -> bytes:
        """The most active dimensions of a slot, with ranges, values and labels."""
        k, board = self.slot(request), self.shown
        assert self.entry is not None
        known = self.entry.study()
        if known is None:
            return write_reply("sliders", {"slot": k, "rows": None})
        rows = [
            {
                "dim": d,
                "label": known.labels[d],
                "low": float(known.ranges[0, d]),
                "high": float(known.ranges[1, d]),
                "value": float(board.slots[k, d]),
                "inferred": float(board.first.slots[k, d]),
                "activeness": value,
            }
            for d, value in varied(most_active(board, k, known.ranges), known.labels, SLIDERS)
        ]
        return write_reply("sliders", {"slot": k, "rows": rows})

    def traverse(self, request: Request) -> bytes:
        """An animation of one dimension, as pictures or as a GIF file."""
        k, d = self.slot(request), self.dimension(request)
        assert self.entry is not None
        known = self.entry.study()
        if known is None:
            raise UserError("The ranges are not known yet; try again in some seconds.")
        pictures = as_bytes(traversal(self.shown, k, d, known.ranges, FRAMES))
        head = {"slot": k, "dim": d}
        if not request["gif"]:
            return write_reply("traversal", head, {"frames": pictures})
        scale = max(1, round(GIF_SIDE / pictures.shape[1]))
        large = [Image.fromarray(np.kron(one, np.ones((scale, scale, 1), np.uint8))) for one in pictures]
        return write_reply("gif", head, {"gif": as_gif([*large, *large[-2:0:-1]])})

    def trace(self, request: Request) -> bytes:
        """Inference step by step: attention of each layer where there is one, then each refinement."""
        self.shown  # noqa: B018  # raises if there is nothing yet
        given = self.inference
        options = {name: given[name] for name in ("num_slots", "num_steps")}
        model = self.shown.model
        steps = infer(model, given["image"][None], [given["seed"]], means=True, trace=True, **options).steps
        arrays: dict[str, Any] = {}
        for n, (_, step) in enumerate(named_steps(steps)):
            arrays[f"result{n}"] = as_bytes(step.image[0])
            arrays[f"masks{n}"] = as_bytes(step.masks[0])
            if step.attention is not None:
                attention = step.attention[0]
                arrays[f"attention{n}"] = as_bytes(attention / attention.amax().clamp_min(1e-9))
        errors = [float((step.image[0] - given["image"]).square().mean()) for step in steps]
        names = [name for name, _ in named_steps(steps)]
        return write_reply("trace", {"steps": names, "errors": errors}, arrays)

    def show_donor(self, request: Request) -> bytes:
        """Another scene of the same data, whose slots can be copied."""
        self.shown  # noqa: B018
        assert self.entry is not None
        scenes = self.entry.scenes(self.scene["data"])
        index = request["index"] % len(scenes)
        image, model = self.entry.picture(self.scene["data"], index), self.entry.model
        found = infer(model, image[None], [index], means=True).steps[-1]
        self.donor = Board(model, image, found.slots[0])
        empty = [bool(mask.mean() < LEAST_SHARE / 2) for mask in self.donor.masks]
        return write_reply(
            "donor",
            {"index": index, "empty": empty},
            {
                "picture": as_bytes(image),
                "masks": as_bytes(self.donor.masks),
                "looks": as_bytes(self.donor.colours),
            },
        )

    def copy(self, request: Request) -> bytes:
        """Puts a slot of the other scene in the place of one of this scene."""
        if self.donor is None:
            raise UserError("Choose a scene to copy from first.")
        k, source = self.slot(request), request["from"]
        if source >= len(self.donor.slots):
            raise UserError(f"The other scene has no slot {source + 1}.")
        board = self.shown
        return self.frame("frame", board.change(board.with_slot(k, self.donor.slots[source])))


def named_steps(steps: tuple[Decomposition, ...]) -> Iterator[tuple[str, Decomposition]]:
    """Steps of inference with names: those that attend are layers, those after them refinements."""
    layers = sum(1 for step in steps if step.attention is not None)
    for n, step in enumerate(steps):
        if len(steps) == 1:
            yield "answer", step
        elif step.attention is not None:
            yield f"layer {n + 1}", step
        else:
            yield f"refinement {n + 1 - layers}" if layers else f"step {n + 1}", step
