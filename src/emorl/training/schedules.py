"""The learning rate as a function of the step, and the number of refinements."""

from __future__ import annotations

import math
from collections.abc import Mapping

from torch import Tensor

from emorl.training.run import TrainConfig


def learning_rate(step: int, train: TrainConfig) -> float:
    """A linear rise over the warm-up, then the chosen decay, counted from its end (deviation 29)."""
    if step < train.warm_up:
        return train.learning_rate * step / train.warm_up
    after = step - train.warm_up
    match train.decay:
        case "exponential":
            return train.learning_rate * math.exp2(-after / train.half_life)
        case "cosine":
            progress = min(1.0, after / max(1, train.steps - train.warm_up))
            return train.learning_rate * 0.5 * (1 + math.cos(math.pi * progress))
        case "none":
            return train.learning_rate


class Curriculum:
    """The refinement steps to train with: a schedule, and fewer once the late ones do little.

    Refinement makes large updates first and small ones last; when the last one has become a small share of the first,
    stage 1 has learned what it did and one step can be saved (section 4.1 of the paper). With a threshold of 0 the
    schedule alone decides.
    """

    DECAY = 0.99  # of the moving average of that share

    def __init__(self, schedule: tuple[tuple[int, int], ...], threshold: float) -> None:
        self.schedule, self.threshold = schedule, threshold
        self.state = {"dropped": 0, "share": 1.0}  # goes into checkpoints

    def num_steps(self, step: int) -> int:
        I = [I for start, I in self.schedule if start <= step][-1]
        return max(min(I, 1), I - int(self.state["dropped"]))

    def update(self, I: int, terms: Mapping[str, Tensor]) -> None:
        """Looks at the sizes of the updates of a pass with `I` refinements."""
        if self.threshold <= 0 or I < 2 or "update_1" not in terms:
            return
        share = float(terms[f"update_{I}"] / terms["update_1"])
        average = self.DECAY * self.state["share"] + (1 - self.DECAY) * share
        is_small = average < self.threshold
        self.state = {"dropped": self.state["dropped"] + is_small, "share": 1.0 if is_small else average}
