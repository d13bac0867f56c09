"""Board: one scene taken apart, whose slots can be edited. Only the slot that was edited is painted again."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.explorer.moves import (
    PULLS,
    Move,
    Place,
    common_colour,
    is_seen,
    move_in_frame,
    pulled,
    shown,
    spread,
)
from emorl.explorer.turns import Turn, turned
from emorl.models.base import Model
from emorl.nn.pixels import PixelDecoder

MOST_UNDONE = 200  # steps that are remembered


class Mover(Protocol):
    """What knows how a slot changes while its object moves."""

    def moved(self, place_of: Callable[[Tensor], Tensor], z: Tensor, by: Tensor) -> Tensor:
        """Returns `z` (D,) with its object moved by `by` (2,)."""


@dataclass(frozen=True)
class Position:
    """What can be undone: the slots, which of them are removed, and how far some are turned."""

    slots: Tensor  # (K, D)
    removed: frozenset[int] = frozenset()
    turns: Mapping[int, Turn] = field(default_factory=dict)


class Board:
    """Slots of one image, what they paint, and the history of their edits."""

    def __init__(self, model: Model, image: Tensor, slots: Tensor) -> None:
        self.model, self.image = model, image  # (3, H, W)
        self.common = common_colour(image)
        self.now = self.first = Position(slots.detach().clone())
        self.undone: list[Position] = []
        self.done: list[Position] = []
        self.stroke: int | None = None
        self.guide: Mover | None = None  # of models whose slots have no frame, once it is known
        # How unlike real slots a change is, once that is known.
        self.metric = torch.eye(slots.shape[1], device=slots.device)
        self.is_held = False  # whether the last edit wanted to turn an object further than the model can
        self.painted_slots = torch.full_like(slots, torch.nan)
        size = model.config.image_size
        self.logits = slots.new_zeros(len(slots), 1, size, size)
        self.colours = slots.new_zeros(len(slots), 3, size, size)
        self.masks = slots.new_zeros(len(slots), 1, size, size)
        self.paint()

    @property
    def slots(self) -> Tensor:
        """The slots as they are now, (K, D)."""
        return self.now.slots

    @property
    def picture(self) -> Tensor:
        """What the slots show together, (3, H, W)."""
        return (self.masks * self.colours).sum(dim=0)

    @torch.no_grad()
    def paint(self) -> list[int]:
        """Paints the slots that have changed since the last time. Returns which."""
        changed = [k for k in range(len(self.slots)) if not torch.equal(self.slots[k], self.painted_slots[k])]
        if changed:
            alone = self.model.layers(self.slots[None, changed])
            if alone is None:
                whole = self.model.decode(self.slots[None])
                self.logits, self.colours = whole.masks[0].clamp_min(1e-12).log(), whole.components[0]
                changed = list(range(len(self.slots)))
            else:
                self.logits[changed], self.colours[changed] = alone[0][0], alone[1][0]
            self.painted_slots = self.slots.clone()
        visible = self.logits.clone()
        visible[sorted(self.now.removed)] = -torch.inf
        self.masks = visible.softmax(dim=0)
        return changed

    def change(self, position: Position, stroke: int | None = None, *, is_held: bool = False) -> list[int]:
        """Makes `position` the present one. Changes of one `stroke`, as a drag is, are undone together."""
        if stroke is None or stroke != self.stroke:
            self.done = [*self.done[1 - MOST_UNDONE :], self.now]
        self.stroke, self.undone = stroke, []
        self.now, self.is_held = position, is_held
        return self.paint()

    def at_stroke_start(self, stroke: int | None) -> Position:
        """The slots as they were before the first change of `stroke`."""
        return self.done[-1] if stroke is not None and stroke == self.stroke and self.done else self.now

    def undo(self) -> list[int]:
        """Takes the last change back, if there is one."""
        if self.done:
            self.undone.append(self.now)
            self.now, self.stroke, self.is_held = self.done.pop(), None, False
        return self.paint()

    def redo(self) -> list[int]:
        """Makes the last change that was undone again."""
        if self.undone:
            self.done.append(self.now)
            self.now, self.stroke, self.is_held = self.undone.pop(), None, False
        return self.paint()

    def reset(self) -> list[int]:
        """As inferred; that can be undone, too."""
        return self.change(self.first)

    def with_slot(
        self, k: int, z: Tensor, base: Position | None = None, turn: Turn | None = None
    ) -> Position:
        """The position `base`, by default the present one, with another slot `k`, which is then not removed."""
        base = base or self.now
        slots = base.slots.clone()
        slots[k] = z
        turns = {n: known for n, known in base.turns.items() if n != k}
        return Position(slots, base.removed - {k}, {**turns, k: turn} if turn else turns)

    def set_number(self, k: int, d: int, value: float, stroke: int | None) -> list[int]:
        """Sets dimension `d` of slot `k`."""
        z = self.slots[k].clone()
        z[d] = value
        return self.change(self.with_slot(k, z), stroke)

    def remove(self, k: int, *, is_removed: bool) -> list[int]:
        """Takes a slot out of the picture, or puts it back."""
        removed = self.now.removed | {k} if is_removed else self.now.removed - {k}
        if len(removed) == len(self.slots):
            raise UserError("The last slot cannot be removed: bring another one back first.")
        return self.change(replace(self.now, removed=removed))

    def move(self, k: int, move: Move, stroke: int | None) -> list[int]:
        """Moves what slot `k` shows, away from where it was when the stroke began."""
        start = self.at_stroke_start(stroke)
        z, turn = self.moved(k, start.slots[k], move, self.slots[k]), start.turns.get(k)
        if not move.turn or not isinstance(self.model.decoder, PixelDecoder):
            return self.change(self.with_slot(k, z, start, turn), stroke)
        # An object that was turned before goes on from how it first stood, or else it would blur a little each time.
        before = turn or Turn()
        z = z - before.change
        done = before if start is self.now else self.now.turns.get(k, before)
        turn = self.turned(k, z, before.angle + move.turn, done)
        return self.change(self.with_slot(k, z + turn.change, start, turn), stroke, is_held=turn.is_held)

    def turned(self, k: int, z: Tensor, wanted: float, done: Turn) -> Turn:
        """Turns what slot `k` would show if it were `z` (D,), some of which is `done`; the rest may take more calls."""
        decoder = self.model.decoder
        assert isinstance(decoder, PixelDecoder)
        others = [n for n in range(len(self.slots)) if n != k and n not in self.now.removed]
        with torch.no_grad():
            spread = self.spread_of(k, z)
        return turned(decoder, z, self.slots[others], spread, done, wanted, self.metric)

    def swap(self, k: int, other: int) -> list[int]:
        """Puts each of two objects where the other was."""
        one, two = self.place(k), self.place(other)
        if one is None or two is None:
            raise UserError("Only slots that show something can change places.")
        away = Move(two.down - one.down, two.right - one.right)
        back = Move(-away.down, -away.right)
        position = self.now
        for slot, move in ((k, away), (other, back)):
            z = self.slots[slot]
            position = self.with_slot(slot, self.moved(slot, z, move, z, most_steps=60), position)
        return self.change(position)

    def moved(self, k: int, z: Tensor, move: Move, near: Tensor, *, most_steps: int = PULLS) -> Tensor:
        """Slot `k`, which is or was `z` (D,), moved; `near` is a guess at the result, if the model has no frame."""
        decoder = self.model.decoder
        if isinstance(decoder, PixelDecoder):
            with torch.no_grad():
                # What does not grow needs no middle to grow around, and is not painted to find it.
                middle = self.spread_of(k, z)[:2] if move.grow else z.new_zeros(2)
                return move_in_frame(decoder, z, move, middle)
        if self.guide is not None and not move.grow:
            with torch.no_grad():
                by = z.new_tensor([move.down, move.right])
                return self.guide.moved(lambda z: self.spread_of(k, z)[:2], z, by)
        with torch.no_grad():
            wanted = self.spread_of(k, z) + z.new_tensor([move.down, move.right, move.grow])
        return pulled(lambda z: self.spread_of(k, z), near, wanted, most_steps)

    def spread_of(self, k: int, z: Tensor) -> Tensor:
        """Middle and log spread (3,) of what slot `k` would show if it were `z` (D,)."""
        alone = self.model.layers(z[None, None])
        if alone is None:
            slots = torch.cat([self.slots[:k], z[None], self.slots[k + 1 :]])
            whole = self.model.decode(slots[None])
            return spread(shown(whole.masks[0, k], whole.components[0, k], self.common))
        logits = torch.cat([self.logits[:k], alone[0][0], self.logits[k + 1 :]])
        return spread(shown(logits.softmax(dim=0)[k], alone[1][0, 0], self.common))

    @torch.no_grad()
    def place(self, k: int) -> Place | None:
        """Where slot `k` is seen; None if it is not."""
        weights = shown(self.masks[k], self.colours[k], self.common)
        if k in self.now.removed or not is_seen(weights):
            return None
        down, right, log_size = spread(weights).tolist()
        return Place(down, right, math.exp(log_size), isinstance(self.model.decoder, PixelDecoder))

    @torch.no_grad()
    def explained(self) -> list[float]:
        """How much of the image's variance each slot explains; together that is what the picture explains."""
        mean = self.image.mean(dim=(1, 2), keepdim=True)
        gain = (self.image - mean).square() - (self.image - self.picture).square()
        total = (self.image - mean).square().sum().clamp_min(1e-6)
        return [float(share) for share in (self.masks * gain).sum(dim=(1, 2, 3)) / total]
