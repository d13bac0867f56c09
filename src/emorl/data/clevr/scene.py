"""CLEVR's rules for a scene: its objects and their places, the camera, and the lamps.

Codes are those of the published records: shape 1 sphere, 2 cylinder, 3 cube; material 1 rubber, 2 metal; colours in the
order of COLORS. Positions are on the ground; an object's centre is its radius above it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emorl.data.base import Array

SPHERE, CYLINDER, CUBE = 1, 2, 3
RUBBER, METAL = 1, 2
LARGE, SMALL = 0.7, 0.35
COLORS = np.array(  # red, cyan, green, blue, brown, gray, purple, yellow: codes 1 to 8
    [
        (173, 35, 35), (41, 208, 208), (29, 105, 20), (42, 75, 215),
        (129, 74, 25), (87, 87, 87), (129, 38, 192), (255, 238, 51),
    ],
    dtype=np.float32,
) / 255  # fmt: skip

CAMERA = np.array([7.4811, -6.5076, 5.3437])
LIGHTS = np.array(  # key, fill, back
    [(6.446710, -2.905175, 4.258398), (-4.671124, -4.013597, 3.011225), (-1.168501, 2.646024, 5.815737)]
)
CAMERA_JITTER, LIGHT_JITTER = 0.5, 1.0
BEHIND = np.array([-0.7545, 0.6563])  # on the ground, away from the camera; CLEVR takes it before the jitter
LEFT = np.array([-BEHIND[1], BEHIND[0]])

REACH = 3.0  # objects stand within this distance of the centre, along each axis
CLEARANCE, MARGIN = 0.25, 0.4  # between surfaces, and along the four directions
TRIES = 50  # to place one object, before the scene starts anew


@dataclass(frozen=True)
class ClevrScene:
    """n objects, a camera and three lamps."""

    x: Array  # (n,)
    y: Array
    radius: Array  # half the side of a cube; LARGE or SMALL
    yaw: Array  # radians
    shape: Array  # codes
    material: Array
    color: Array
    camera: Array  # (3,)
    lights: Array  # (3, 3)

    def __len__(self) -> int:
        return len(self.x)

    @property
    def rgb(self) -> Array:
        """Reflectances (n, 3); CLEVR takes its colours for linear ones."""
        colors: Array = COLORS[self.color - 1]
        return colors


def draw_scene(rng: np.random.Generator, count: int) -> ClevrScene:
    """Draws `count` objects that keep CLEVR's distances, and a jittered camera and lamps."""
    radius, places = None, None
    while places is None:
        radius = rng.choice([LARGE, SMALL], count)
        places = draw_places(rng, radius)
    assert radius is not None
    return ClevrScene(
        x=places[:, 0],
        y=places[:, 1],
        radius=radius,
        yaw=rng.uniform(0, 360, count) % (2 * np.pi),  # CLEVR reads its degrees as radians
        shape=rng.integers(SPHERE, CUBE + 1, count),
        material=rng.integers(RUBBER, METAL + 1, count),
        color=rng.integers(1, len(COLORS) + 1, count),
        camera=CAMERA + rng.uniform(-CAMERA_JITTER, CAMERA_JITTER, 3),
        lights=LIGHTS + rng.uniform(-LIGHT_JITTER, LIGHT_JITTER, (3, 3)),
    )


def draw_places(rng: np.random.Generator, radius: Array) -> Array | None:
    """Draws places (n, 2) on the ground; returns None if there is no free one for an object in TRIES draws."""
    places = np.empty((len(radius), 2))
    for number, r in enumerate(radius):
        for candidate in rng.uniform(-REACH, REACH, (TRIES, 2)):
            away = candidate - places[:number]
            apart = np.hypot(*away.T) - r - radius[:number] >= CLEARANCE
            along = np.abs(away @ np.stack([BEHIND, LEFT], axis=1))
            if apart.all() and (along >= MARGIN).all():
                places[number] = candidate
                break
        else:
            return None
    return places
