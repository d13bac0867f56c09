"""Small versions of all models and pictures of two squares: what tests compute numbers of, and teach."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from emorl.models.parts import DecoderConfig, EncoderConfig
from emorl.runs.presets import PRESETS
from emorl.schedules import Schedule
from helpers import varied

SIZE = 16
COLOURS = torch.tensor([[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])


def squares(count: int) -> Tensor:
    """Pictures (count, 3, 16, 16) with a square on the left and one of another colour on the right."""
    g = torch.Generator().manual_seed(0)
    images = torch.zeros(count, 3, SIZE, SIZE)
    for image in images:
        colours = COLOURS[torch.randperm(4, generator=g)]
        for side in range(2):
            top = int(torch.randint(0, 8, (), generator=g))
            left = 8 * side + int(torch.randint(0, 2, (), generator=g))
            image[:, top : top + 8, left : left + 7] = colours[side][:, None, None]
    return images


def toy(kind: str, **changes: Any) -> Any:
    """The tiny preset of a model, for these pictures."""
    return varied(PRESETS[f"{kind}/tetrominoes-tiny"].model, image_size=SIZE, num_slots=3, **changes)


LEAN = DecoderConfig("lean", channels=16, frequencies=4)
PLAIN: dict[str, Any] = {
    "slot_size": 16,
    "encoder": EncoderConfig(channels=16, stride=2, frequencies=4),
    "decoder": LEAN,
}
ALMOST_NO_KL = Schedule.parse(0.01)
TOYS: dict[str, Any] = {
    "efficient-morl": toy("efficient-morl", objective={"kl_weight": ALMOST_NO_KL}, **PLAIN),
    "efficient-morl recipe": toy(
        "efficient-morl",
        slot_size=16,
        encoder=EncoderConfig("pyramid", channels=16, frequencies=4),
        decoder=DecoderConfig("pixels", channels=16),
        inference={"own_frame": 16, "sharpness": 4.0},
        objective={
            "kl_weight": ALMOST_NO_KL,
            "likelihood": "pixel-mixture",
            "block": 2,
            "presence": Schedule.parse(0.5),
        },
    ),
    "slot-attention": toy("slot-attention", initialisation="scaled", **PLAIN),
    "slot-mlp": toy("slot-mlp", hidden_size=64, **PLAIN),
    "genesis": toy("genesis", mask_size=16, channels=8, hidden_size=32),
    "genesis-s": toy("genesis-s", mask_size=16, channels=8, hidden_size=32),
    "monet": toy("monet", slot_size=16, attention_channels=8, encoder_channels=8, decoder=LEAN),
    "iodine": toy(
        "iodine",
        kl_weight=ALMOST_NO_KL,
        slot_size=16,
        decoder=LEAN,
        refine_channels=16,
        refine_sizes=(32,),
        lstm_size=32,
    ),
    "genesis-v2": toy("genesis-v2", slot_size=16, channels=16, decoder=LEAN),
}
