"""Session: what one visitor looks at, and the answer to each of the visitor's requests."""

from __future__ import annotations

from typing import Any

import numpy as np
from PIL import Image

from emorl.data.base import Array
from emorl.errors import UserError
from emorl.evaluation.inference import infer
from emorl.explorer.board import Board, Position
from emorl.explorer.catalogue import Catalogue, Entry, describe
from emorl.explorer.meaning import Study
from emorl.explorer.messages import Request, as_bytes, write_reply
from emorl.explorer.moves import Move
from emorl.explorer.uploads import read_upload
from emorl.explorer.views import animation_reply, board_reply, donor_reply, sliders_reply, trace_reply
from emorl.panels import palette
from emorl.probability import scene_seeds

LARGEST_KEPT = 1024  # pixels along a side of an uploaded picture: no model looks at more


class Session:
    """One visitor. `answer` is called for one request at a time."""

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.entry: Entry | None = None
        self.board: Board | None = None
        self.donor: Board | None = None
        self.scene: dict[str, Any] = {}  # as the page knows it
        self.inference: dict[str, Any] = {}  # what it was made of, to be made again step by step
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
        thumbnail = Image.fromarray(pixels)
        thumbnail.thumbnail((LARGEST_KEPT, LARGEST_KEPT))
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
            image, (seed,) = entry.picture(request["data"], index), scene_seeds(request["seed"], [index])
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
        return board_reply("scene", self.board, range(len(slots)), about, {"picture": as_bytes(image)})

    def frame(self, changed: list[int]) -> bytes:
        """What the visitor looks at, after an edit that has `changed` some slots."""
        return board_reply("frame", self.shown, changed)

    def restore(self, request: Request) -> bytes:
        """Edits that a link holds."""
        board = self.shown
        slots = board.first.slots.clone()
        for k, values in request["edits"].items():
            if k >= len(slots) or len(values) != slots.shape[1]:
                raise UserError("The link's edits are of another model or number of slots.")
            slots[k] = slots.new_tensor(values)
        removed = frozenset(request["removed"])
        if any(k >= len(slots) for k in removed) or len(removed) >= len(slots):
            raise UserError("The link removes slots that are not there.")
        return self.frame(board.change(Position(slots, removed)))

    def move(self, request: Request) -> bytes:
        """Moves, resizes, turns."""
        move = Move(request["down"], request["right"], request["grow"], request["turn"])
        return self.frame(self.guided().move(self.slot(request), move, request["stroke"]))

    def guided(self) -> Board:
        """What the visitor looks at, with all that is known by now of how its objects move."""
        board, known = self.shown, self.known
        if known is not None:
            board.guide, board.metric = known.guide, known.metric
        return board

    @property
    def known(self) -> Study | None:
        """What is known of the numbers of slots; None while that is still looked at."""
        return None if self.entry is None else self.entry.study()

    def set_number(self, request: Request) -> bytes:
        """A slider was moved."""
        k = self.slot(request)
        d = self.dimension(request)
        return self.frame(self.shown.set_number(k, d, request["value"], request["stroke"]))

    def dimension(self, request: Request) -> int:
        """The dimension that a request names."""
        d: int = request["dim"]
        if d >= self.shown.slots.shape[1]:
            raise UserError(f"A slot has {self.shown.slots.shape[1]} numbers; there is no number {d}.")
        return d

    def remove(self, request: Request) -> bytes:
        """Takes a slot away or brings it back."""
        return self.frame(self.shown.remove(self.slot(request), is_removed=request["removed"]))

    def swap(self, request: Request) -> bytes:
        """Two objects change places."""
        return self.frame(self.guided().swap(self.slot(request), self.slot(request, "other")))

    def undo(self, request: Request) -> bytes:
        """One change back."""
        return self.frame(self.shown.undo())

    def redo(self, request: Request) -> bytes:
        """One change forward."""
        return self.frame(self.shown.redo())

    def reset(self, request: Request) -> bytes:
        """As inferred."""
        return self.frame(self.shown.reset())

    def sliders(self, request: Request) -> bytes:
        """The most active dimensions of a slot."""
        return sliders_reply(self.shown, self.slot(request), self.known)

    def traverse(self, request: Request) -> bytes:
        """An animation of one dimension, as pictures or as a GIF file."""
        k, d, known = self.slot(request), self.dimension(request), self.known
        if known is None:
            raise UserError("The ranges are not known yet; try again in some seconds.")
        return animation_reply(self.shown, k, d, known, as_file=request["gif"])

    def trace(self, request: Request) -> bytes:
        """Inference step by step."""
        model, given = self.shown.model, self.inference
        options = {name: given[name] for name in ("num_slots", "num_steps")}
        found = infer(model, given["image"][None], [given["seed"]], means=True, trace=True, **options)
        return trace_reply(found.steps, given["image"])

    def show_donor(self, request: Request) -> bytes:
        """Another scene of the same data, whose slots can be copied."""
        if self.entry is None:
            raise UserError("Open a scene first.")
        index = request["index"] % len(self.entry.scenes(self.scene["data"]))
        image, model = self.entry.picture(self.scene["data"], index), self.entry.model
        found = infer(model, image[None], [index], means=True).steps[-1]
        self.donor = Board(model, image, found.slots[0])
        return donor_reply(self.donor, index)

    def copy(self, request: Request) -> bytes:
        """Puts a slot of the other scene in the place of one of this scene."""
        if self.donor is None:
            raise UserError("Choose a scene to copy from first.")
        k, source = self.slot(request), request["from"]
        if source >= len(self.donor.slots):
            raise UserError(f"The other scene has no slot {source + 1}.")
        board = self.shown
        return self.frame(board.change(board.with_slot(k, self.donor.slots[source])))
