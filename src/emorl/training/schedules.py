"""Functions of the step: the learning rate and the number of refinements."""

from __future__ import annotations

import math

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


def curriculum_value(curriculum: tuple[tuple[int, int], ...], step: int) -> int:
    """I of the last stage that has begun."""
    return [I for start, I in curriculum if start <= step][-1]
