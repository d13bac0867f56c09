"""Schedule: a value that depends on the training step, such as a learning rate or the weight of the KL.

It is written as text, in presets, config.json and on the command line alike: a value, then points "WHEN:VALUE". WHEN is
a step, or a share of the training with a percent sign. A word before a point says how to get there:

    1                                   always 1
    3 50%:1                             3, and 1 from the middle of the training on
    0 linear 200:0.001 cosine 100%:0    up over 200 steps, then down to nothing at the end
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

from emorl.errors import UserError

Shape = Literal["jump", "linear", "geometric", "cosine"]
SHAPES: tuple[str, ...] = get_args(Shape)


@dataclass(frozen=True)
class Point:
    """A value that holds at a step, and how it is reached from the point before."""

    when: float  # a step, or a percentage of the training
    is_share: bool  # which of the two
    value: float
    shape: Shape = "jump"

    def step(self, length: int) -> float:
        """The step it is at in a training of `length` steps."""
        return self.when / 100 * length if self.is_share else self.when


@dataclass(frozen=True)
class Schedule:
    """A value for every step of a training."""

    points: tuple[Point, ...]  # the first is at step 0

    @staticmethod
    def parse(text: str | float) -> Schedule:
        """Reads what `str` writes; raises UserError for anything else."""
        words = str(text).split()
        try:
            points = [Point(0, False, number(words[0]))]
            shape: Shape | None = None
            for word in words[1:]:
                if word in SHAPES and shape is None:
                    shape = word  # type: ignore[assignment]
                    continue
                when, value = word.split(":")
                at = number(when.removesuffix("%"))
                points.append(Point(at, when.endswith("%"), number(value), shape or "jump"))
                shape = None
            if shape is not None:
                raise ValueError(shape)  # a way without a point at its end
        except (ValueError, IndexError):
            raise UserError(
                f"{text!r} is not a schedule: write a value, or a value and points WHEN:VALUE after it, such as "
                '"0 linear 200:0.001 cosine 100%:0". A word before a point is one of '
                + ", ".join(SHAPES)
                + "."
            ) from None
        return Schedule(tuple(points)).checked(str(text))

    def checked(self, text: str) -> Schedule:
        """Returns the schedule; raises UserError where its points make no sense."""
        latest = {False: -1.0, True: -1.0}  # steps and percentages can only be compared with their own kind
        for before, point in pairwise(self.points):
            if point.when < 0 or (point.is_share and point.when > 100):
                raise UserError(f"{text!r}: a point must be at step 0 or later, and at 100% or earlier.")
            if point.when <= latest[point.is_share]:
                raise UserError(f"{text!r}: points must come in the order of their steps.")
            latest[point.is_share] = point.when
            if point.shape == "geometric" and not (before.value > 0 and point.value > 0):
                raise UserError(f"{text!r}: a geometric way needs values above 0 at both ends.")
        return self

    def __str__(self) -> str:
        words = [shortest(self.points[0].value)]
        for point in self.points[1:]:
            words += [] if point.shape == "jump" else [point.shape]
            words.append(f"{shortest(point.when)}{'%' * point.is_share}:{shortest(point.value)}")
        return " ".join(words)

    def at(self, step: int, length: int) -> float:
        """The value at `step` of a training of `length` steps."""
        before = self.points[0]
        for point in self.points[1:]:
            start, stop = before.step(length), point.step(length)
            if step < stop:
                progress = (step - start) / (stop - start) if stop > start else 1.0
                return between(before.value, point.value, point.shape, max(0.0, progress))
            before = point
        return before.value

    @property
    def final(self) -> float:
        """The value at the end, which a trained model keeps."""
        return self.points[-1].value

    @property
    def smallest(self) -> float:
        """The least value it ever has."""
        return min(point.value for point in self.points)

    @property
    def largest(self) -> float:
        """The greatest value it ever has."""
        return max(point.value for point in self.points)

    @property
    def depends_on_length(self) -> bool:
        """Whether another number of training steps changes the values of the steps before."""
        return any(point.is_share for point in self.points)


def between(start: float, stop: float, shape: Shape, progress: float) -> float:
    """The value after a share `progress` of the way from `start` to `stop`."""
    match shape:
        case "jump":
            return start
        case "linear":
            return start + (stop - start) * progress
        case "geometric":
            return start * math.exp(math.log(stop / start) * progress)
        case "cosine":
            return stop + (start - stop) * 0.5 * (1 + math.cos(math.pi * progress))


def shortest(value: float) -> str:
    """The shortest text that `number` reads as this very value."""
    return repr(float(value)).removesuffix(".0")


def number(text: str) -> float:
    """Reads a finite number; raises ValueError for anything else."""
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(text)
    return value
