"""Ours takes less time and arithmetic than reference mode. tests/models/test_efficient_morl.py compares results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from emorl.evaluation.cost import Pass, costs
from emorl.experiments.reference import Reference
from emorl.geco import GecoConfig
from emorl.models import build
from emorl.models.base import Model
from emorl.models.efficient_morl_config import EfficientMORLConfig, ObjectiveConfig
from emorl.models.parts import DecoderConfig, EncoderConfig

SMALL = EfficientMORLConfig(
    image_size=32,
    num_slots=4,
    slot_size=32,
    encoder=EncoderConfig(channels=32),
    decoder=DecoderConfig(channels=32),
    objective=ObjectiveConfig(geco=GecoConfig()),
)
MAKERS: dict[str, Callable[[], Model]] = {
    "ours": partial(build, SMALL),
    "reference": partial(Reference, SMALL),
}


@pytest.mark.slow
@pytest.mark.parametrize(("I", "training", "least"), [(3, True, 1.5), (0, False, 1.1)])
def test_ours_is_faster_than_reference(I: int, training: bool, least: float) -> None:
    """Usually 2.2 and 1.5 times. CPU time, in turns, the best of three attempts: a busy machine is no excuse."""
    passes = {who: Pass(make, 2, training=training, num_steps=I) for who, make in MAKERS.items()}
    ratios: list[float] = []
    while len(ratios) < 3 and max(ratios, default=0) < least:
        found = costs(passes, repeats=3)
        ratios.append(found["reference"].quartiles[1] / found["ours"].quartiles[1])
    assert max(ratios) >= least, ratios


def test_ours_computes_less_than_reference() -> None:
    """What no noise can hide."""
    passes = {who: Pass(make, 1, training=True, num_steps=3) for who, make in MAKERS.items()}
    found = costs(passes, repeats=1)
    assert found["reference"].flops > 1.5 * found["ours"].flops
