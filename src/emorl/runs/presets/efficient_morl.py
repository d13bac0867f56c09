"""EfficientMORL, as published and for small machines."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from emorl.data import FOLDER, DataConfig
from emorl.geco import GecoConfig
from emorl.models.efficient_morl import EfficientMORLConfig, InferenceConfig, ObjectiveConfig
from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.presets.common import FAST, PIXELS, TINY, TOKENS, named
from emorl.schedules import Schedule

TETROMINOES = EfficientMORLConfig(
    image_size=35,
    num_slots=4,
    slot_size=32,
    num_steps=3,
    decoder=DecoderConfig("small"),
    # A target below the floor of -4424.6: the weight of the reconstruction grows all the time (Difference 4).
    objective=ObjectiveConfig(
        likelihood="gaussian",
        sigma=Schedule.parse(0.3),
        geco=GecoConfig(target=-4500.0, allow_unreachable=True),
    ),
)

MULTI_DSPRITES = EfficientMORLConfig(
    image_size=64,
    num_slots=6,
    slot_size=64,
    objective=ObjectiveConfig(likelihood="gaussian", geco=GecoConfig()),
)

# Where two slots begin with one object they often share it to the end: of so many beginnings, the best is refined.
STARTS = 4
# For two CPU cores: objects first, with almost no KL, from a posterior that starts narrow; then the KL comes down.
SMALL_INFERENCE = InferenceConfig(attention_norm=True, initialisation="scaled", scale_bias=-6.0)
SMALL_OBJECTIVE = ObjectiveConfig(
    likelihood="gaussian",
    sigma=Schedule.parse(0.3),
    loss_weights="paper",
    kl_weight=Schedule.parse("0.007 800:0.007 geometric 6000:1"),
    nll_weight=3.5,
    geco=GecoConfig(),
)
TETROMINOES_FAST = replace(
    TETROMINOES,
    num_steps=1,
    encoder=EncoderConfig(channels=32, stride=2, frequencies=8),
    decoder=DecoderConfig("lean", frequencies=8),
    inference=SMALL_INFERENCE,
    objective=SMALL_OBJECTIVE,
)
# A background of its own for Tetrominoes, in three parts. A price on large slots keeps one slot for the background and
# the others in use; a price on slots of several colours, high for a while, parts the background from the objects; and
# only then the KL rises, for with a high KL slots that are not needed die before the background has one. Three
# refinements from then on: with one, a scene in twenty ends with two slots for the background.
OWN_BACKGROUND = replace(
    TETROMINOES_FAST,
    num_steps=3,
    inference=replace(SMALL_INFERENCE, starts=STARTS),
    objective=replace(
        SMALL_OBJECTIVE,
        area_price=Schedule.parse("0 1000:0 linear 2000:100"),
        colour_price=Schedule.parse("0 2500:0 2501:20 3000:20 linear 3200:4 linear 3800:1"),
        kl_weight=Schedule.parse("0.007 3600:0.007 geometric 4800:1"),
    ),
)
TETROMINOES_TINY = replace(
    TETROMINOES_FAST,
    slot_size=8,
    encoder=EncoderConfig(channels=8, stride=2, frequencies=2),
    decoder=DecoderConfig("lean", channels=8, frequencies=2),
)
# Patterns want a decoder finer than that of plain sprites; larger images take longer, so there are fewer steps.
TEXTURED_FAST = replace(
    TETROMINOES_FAST,
    image_size=64,
    num_slots=6,
    slot_size=64,
    objective=replace(SMALL_OBJECTIVE, kl_weight=Schedule.parse("0.007 800:0.007 geometric 3000:1")),
)


def recipe(
    image_size: int, num_slots: int, *, block: int, sigma: str, presence: str = "0"
) -> EfficientMORLConfig:
    """What learns larger images on one core: a decoder of single pixels, trained on one pixel of each block.

    Noise in the data, and so how exact a picture should be, is `sigma`. `presence` is the price of a used slot: it
    rises when objects have been found, and empties the slots that are not needed.
    """
    return EfficientMORLConfig(
        image_size=image_size,
        num_slots=num_slots,
        slot_size=64,
        encoder=TOKENS,
        decoder=PIXELS,
        inference=replace(SMALL_INFERENCE, own_frame=64, sharpness=4.0, starts=STARTS),
        objective=replace(
            SMALL_OBJECTIVE,
            likelihood="pixel-mixture",
            sigma=Schedule.parse(sigma),
            block=block,
            kl_weight=Schedule.parse("0.007 8%:0.007 geometric 40%:1"),
            presence=Schedule.parse(presence),
        ),
    )


SHARPER_LATE = "0.2 60%:0.2 geometric 100%:0.1"
PAPER = TrainConfig(steps=300_000, num_steps=Schedule.parse("3 100000:1"))
RECIPE = replace(FAST, num_steps=Schedule.parse("3 20%:1"))

PRESETS = named(
    "efficient-morl",
    {
        "tetrominoes-paper": (TETROMINOES, TrainConfig(steps=200_000)),
        "multi-dsprites-paper": (MULTI_DSPRITES, PAPER),
        "multi-dsprites-textured-paper": (MULTI_DSPRITES, PAPER),
        "clevr6-paper": (EfficientMORLConfig(), PAPER),
        "tetrominoes": (
            OWN_BACKGROUND,
            replace(FAST, steps=10_000, num_steps=Schedule.parse("1 5000:3")),
        ),
        "tetrominoes-plain": (TETROMINOES_FAST, FAST),  # the background is shared by the slots of objects
        "multi-dsprites": (
            replace(recipe(64, 6, block=3, sigma=SHARPER_LATE, presence="0 6000:100"), num_steps=3),
            replace(FAST, steps=9_000, num_steps=Schedule.parse(3)),
        ),
        "multi-dsprites-textured": (TEXTURED_FAST, replace(FAST, steps=4_000)),
        "clevr6": (recipe(96, 7, block=4, sigma="0.1"), replace(RECIPE, steps=8_000)),
        "tetrominoes-tiny": (TETROMINOES_TINY, TINY),
    },
)


def continued(
    name: str,
    *,
    steps: int,
    num_steps: int = 3,
    starts: int = 1,
    learning_rate: str = str(FAST.learning_rate),
    **objective: Any,
) -> RunConfig:
    """Goes on from the released weights of the preset `name`, with everything as it was at the end of that training.

    Except for refinement: three steps throughout in training, and `num_steps` and `starts` at test time. The learning
    rate starts again, and `objective` has what else changes there.
    """
    run = PRESETS[name]
    at_the_end = {
        "kl_weight": Schedule.parse(1),
        "sigma": Schedule.parse(0.1),
        "presence": Schedule.parse(100),
    }
    return replace(
        run,
        model=replace(
            run.model,
            num_steps=num_steps,
            inference=replace(run.model.inference, starts=starts),
            objective=replace(run.model.objective, **at_the_end | objective),
        ),
        train=replace(
            run.train,
            steps=steps,
            num_steps=Schedule.parse(3),
            learning_rate=Schedule.parse(learning_rate),
            start_from=name,
        ),
    )


# Weights in "-middle" are there for those in "-long" to go on from, which may take more time for an image.
PRESETS["efficient-morl/multi-dsprites-middle"] = continued("efficient-morl/multi-dsprites", steps=12_000)
# A higher weight of the reconstruction makes the outlines of sprites more exact, and so do pixels drawn at outlines.
# The price of a slot grows with the weight.
PRESETS["efficient-morl/multi-dsprites-long"] = continued(
    "efficient-morl/multi-dsprites-middle",
    steps=12_000,
    num_steps=4,
    starts=8,
    learning_rate="0 linear 100:0.0004 cosine 100%:0",
    nll_weight=15.0,
    presence=Schedule.parse(400),
    busy=0.5,
)
PRESETS["efficient-morl/clevr6-middle"] = continued("efficient-morl/clevr6", steps=6_000)
# Shadows go to the background: a pixel outside it has a price. At this scale of the likelihood most shadows differ from
# the ground by less than the price, and objects by more; the weight makes up for the scale.
PRESETS["efficient-morl/clevr6-long"] = continued(
    "efficient-morl/clevr6-middle",
    steps=2_400,
    num_steps=4,
    starts=8,
    learning_rate="0 linear 50:0.0004 cosine 100%:0",
    sigma=Schedule.parse(0.15),
    nll_weight=8.0,
    foreground_price=Schedule.parse("0 linear 200:4 100%:1"),
    busy=0.5,
)
PRESETS["efficient-morl/folder"] = RunConfig(
    recipe(64, 6, block=3, sigma=SHARPER_LATE, presence="0 67%:100"),
    DataConfig(FOLDER, image_size=64),
    RECIPE,
)
