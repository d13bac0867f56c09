"""The number of refinements of a training step: a schedule, and fewer once the late ones have become small."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from emorl.schedules import Schedule


class Curriculum:
    """The refinement steps to train with: a schedule, and fewer once the late ones have become small.

    While stage 1 learns, the updates after the first grow; when it has learned, they shrink (section 4.1 and Figure 3
    of the paper). A step whose update, as a moving average, has fallen below a share of the largest it has ever been is
    dropped. With a threshold of 0 the schedule alone decides.
    """

    DECAY = 0.99  # of the moving averages
    SETTLED = 200  # passes before averages are taken: the updates of an untrained network mean nothing

    def __init__(self, schedule: Schedule | None, threshold: float, length: int) -> None:
        self.schedule, self.threshold, self.length = schedule, threshold, length
        # Goes into checkpoints; averages and peaks by the number of the refinement.
        self.state: dict[str, Any] = {"dropped": 0, "seen": 0, "average": {}, "peak": {}}

    def load(self, saved: Mapping[str, Any]) -> None:
        """Takes over the state of a checkpoint; raises ValueError if it is none."""
        state = {name: saved.get(name, value) for name, value in self.state.items()}
        is_right = all(type(state[name]) is int and state[name] >= 0 for name in ("dropped", "seen"))
        for name in ("average", "peak"):
            values = state[name].items() if isinstance(state[name], dict) else [(None, None)]
            is_right &= all(type(i) is int and type(size) is float for i, size in values)
        if not is_right:
            raise ValueError("its curriculum is damaged")
        self.state = state

    def num_steps(self, step: int) -> int | None:
        """I at this step; None, without a schedule, leaves it to the model."""
        if self.schedule is None:
            return None
        I = round(self.schedule.at(step, self.length))
        return max(min(I, 1), I - int(self.state["dropped"]))

    def update(self, I: int | None, terms: Mapping[str, Tensor]) -> None:
        """Takes the sizes of the updates of a pass with `I` refinements into the averages."""
        if self.threshold <= 0 or I is None or I < 2 or f"update_{I}" not in terms:
            return
        self.state["seen"] += 1
        if self.state["seen"] <= self.SETTLED:
            return
        average, peak = self.state["average"], self.state["peak"]
        for i in range(2, I + 1):
            size = float(terms[f"update_{i}"])
            average[i] = self.DECAY * average.get(i, size) + (1 - self.DECAY) * size
            peak[i] = max(peak.get(i, 0.0), average[i])
        self.state["dropped"] += average[I] < self.threshold * peak[I]
