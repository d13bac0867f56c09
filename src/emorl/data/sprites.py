"""Multi-dSprites: dSprites' square, ellipse and heart, drawn analytically, two to five on a 64x64 canvas.

The published variants, and the paper's textured one, in which objects cannot be told apart by colour: the patterned
sprites of a scene share its colours. Later sprites lie in front; scenes in which one is fully hidden are drawn again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from emorl.data.base import Array, Arrays, DatasetInfo, FactorKind, SceneDataset, padded

SIZE = 64
WINDOW = 28  # no sprite reaches further: half the diagonal of the largest square is 13.6
SCALES = np.linspace(0.5, 1, 6)
ORIENTATIONS = np.linspace(0, 2 * np.pi, 40)  # 0 and 2π are both in the published set
POSITIONS = np.linspace(0, 1, 32)
SQUARE, ELLIPSE, HEART = 1, 2, 3  # the published shape ids
HALF_SIDE, HALF_AXES = 9.6, (12.8, 7.2)  # at scale 1, in pixels

# Distance of the heart's outline from its centre, every 3 degrees from just beside the cleft (-88.5) to the tip (88.5);
# the other half mirrors it.
HEART_ANGLES = np.deg2rad(np.arange(-88.5, 90, 3))
HEART_RADII = np.array([
    5.473, 6.521, 7.294, 8.044, 8.577, 9.161, 9.568, 10.075, 10.341, 10.638, 10.794, 11.02, 11.102, 11.198, 11.264,
    11.264, 11.245, 11.102, 11.128, 10.958, 10.781, 10.656, 10.351, 10.177, 9.823, 9.563, 9.224, 8.91, 8.597, 8.276,
    7.906, 7.758, 7.382, 7.172, 7.014, 6.782, 6.645, 6.44, 6.364, 6.234, 6.197, 6.024, 6.037, 5.936, 5.967,
    5.967, 5.915, 6.037, 5.83, 6.197, 6.112, 6.266, 6.342, 6.469, 6.714, 7.093, 7.172, 7.73, 8.234, 8.803,
])  # fmt: skip

Variant = Literal["binarized", "grayscale", "colored", "textured", "crowded"]


@dataclass(frozen=True)
class Composition:
    """How the scenes of a variant are made up."""

    counts: tuple[int, int]  # least and most sprites
    description: str


COMPOSITIONS: dict[Variant, Composition] = {
    "binarized": Composition((2, 3), "two or three white sprites on black"),
    "grayscale": Composition((2, 5), "two to five coloured sprites on grey, the paper's variant"),
    "colored": Composition((1, 4), "one to four coloured sprites on a coloured background"),
    "textured": Composition((2, 5), "two to five patterned sprites on a uniform texture"),
    "crowded": Composition(
        (6, 7), "six or seven on grey: for models that have learned from fewer, with another K"
    ),
}
FACTORS: dict[str, FactorKind] = {
    "x": "continuous",
    "y": "continuous",
    "shape": "discrete",
    "scale": "continuous",
    "orientation": "continuous",
    "color": "continuous",
    "visibility": "discrete",
}
PATTERN_FACTORS: dict[str, FactorKind] = {"accent": "continuous", "pattern": "discrete"}


class MultiDSprites(SceneDataset):
    """Scene i is a pure function of (seed, i)."""

    def __init__(self, variant: Variant = "grayscale", *, seed: int = 0, length: int = 60_000) -> None:
        composition = COMPOSITIONS[variant]
        self.variant, self.seed, self.length = variant, seed, length
        self.info = DatasetInfo(
            name="multi-dsprites" if variant == "grayscale" else f"multi-dsprites-{variant}",
            image_size=SIZE,
            max_objects=composition.counts[1],
            factors=FACTORS | (PATTERN_FACTORS if variant == "textured" else {}),
            description=f"{composition.description}, {SIZE}x{SIZE}",
            origin=f"seed {seed}",
            title="Multi-dSprites" if variant == "grayscale" else f"{variant} Multi-dSprites",
        )

    def __len__(self) -> int:
        return self.length

    def arrays(self, index: int) -> Arrays:
        rng = np.random.default_rng((self.seed, index))
        low, high = COMPOSITIONS[self.variant].counts
        count = int(rng.integers(low, high + 1))
        while True:
            sprites = draw_sprites(rng, count)
            inside, window, frame = rasterise(sprites)
            segmentation = np.zeros((SIZE, SIZE), dtype=np.uint8)
            for number, (mask, at) in enumerate(zip(inside, window, strict=True), start=1):
                segmentation[at][mask] = number
            if len(np.unique(segmentation[segmentation > 0])) == count:
                break
        paint = PAINTS[self.variant](rng, count)
        image = np.empty((SIZE, SIZE, 3))
        image[:] = paint.background
        for mask, at, uv, color, accent, pattern in zip(
            inside, window, frame, paint.color, paint.accent, paint.pattern, strict=True
        ):
            is_accent = PATTERNS[pattern](uv[:, mask])[:, None] if pattern else False
            image[at][mask] = np.where(is_accent, accent, color)
        factors = {
            "x": sprites.x,
            "y": sprites.y,
            "shape": sprites.shape,
            "scale": sprites.scale,
            "orientation": sprites.orientation,
            "color": paint.color,
            "visibility": np.ones(count),
            "accent": paint.accent,
            "pattern": paint.pattern,
        }
        return {
            "image": (image * 255).round().astype(np.uint8),
            "segmentation": segmentation,
            **{name: padded(factors[name], high) for name in self.info.factors},
        }


@dataclass(frozen=True)
class Sprites:
    """Latents of n sprites, (n,) each, with the published meaning and range."""

    x: Array  # 0 left to 1 right
    y: Array  # 0 top to 1 bottom
    shape: Array
    scale: Array
    orientation: Array


def draw_sprites(rng: np.random.Generator, count: int) -> Sprites:
    """Draws `count` sprites; all latents are uniform, as in dSprites itself."""
    return Sprites(
        rng.choice(POSITIONS, count),
        rng.choice(POSITIONS, count),
        rng.integers(SQUARE, HEART + 1, count),
        rng.choice(SCALES, count),
        rng.choice(ORIENTATIONS, count),
    )


def rasterise(sprites: Sprites) -> tuple[Array, list[tuple[slice, slice]], Array]:
    """Returns, for each sprite, its pixels in a window (n, W, W), the window, and (u, v) of its pixels (n, 2, W, W).

    u and v are the sprite's own coordinates, in pixels at scale 1. A pixel belongs to a sprite if its centre does.
    """
    center = 16 + 32 * np.stack([sprites.y, sprites.x], axis=1)  # row, column
    corner = center.astype(int) - WINDOW // 2
    offset = np.arange(WINDOW) + 0.5
    dy = (corner[:, :1] - center[:, :1] + offset)[:, :, None]
    dx = (corner[:, 1:] - center[:, 1:] + offset)[:, None, :]
    cos = (np.cos(sprites.orientation) / sprites.scale)[:, None, None]
    sin = (np.sin(sprites.orientation) / sprites.scale)[:, None, None]
    u, v = cos * dx - sin * dy, sin * dx + cos * dy
    inside = np.empty(u.shape, dtype=bool)
    for shape, contains in CONTAINS.items():
        chosen = sprites.shape == shape
        inside[chosen] = contains(u[chosen], v[chosen])
    windows = [(slice(row, row + WINDOW), slice(column, column + WINDOW)) for row, column in corner]
    return inside, windows, np.stack([u, v], axis=1)


CONTAINS: dict[int, Callable[[Array, Array], Array]] = {
    SQUARE: lambda u, v: np.maximum(abs(u), abs(v)) <= HALF_SIDE,
    ELLIPSE: lambda u, v: (u / HALF_AXES[0]) ** 2 + (v / HALF_AXES[1]) ** 2 <= 1,
    HEART: lambda u, v: np.hypot(u, v) <= np.interp(np.arctan2(v, abs(u)), HEART_ANGLES, HEART_RADII),
}


@dataclass(frozen=True)
class Paint:
    """Colours in [0, 1]: of the background, broadcastable to (H, W, 3), and of n sprites."""

    background: Array
    color: Array  # (n, 3)
    accent: Array  # (n, 3), the second colour of a pattern
    pattern: Array  # (n,), a key of PATTERNS, or 0 for none


def plain(background: Array, color: Array) -> Paint:
    """Returns paint without patterns: `background` and one `color` (n, 3) for each sprite."""
    return Paint(background, color, color, np.zeros(len(color), dtype=int))


def vivid(rng: np.random.Generator, count: int) -> Array:
    """Draws colours (count, 3) of any hue, with saturation and value of at least a half."""
    hue, saturation, value = rng.random(count), rng.uniform(0.5, 1, count), rng.uniform(0.5, 1, count)
    # HSV to RGB without branches: each channel depends on the distance of the hue to that of its primary.
    away = abs((hue[:, None] * 6 + (0, 4, 2)) % 6 - 3) - 1
    rgb: Array = value[:, None] * (1 - saturation[:, None] * (1 - away.clip(0, 1)))
    return rgb


def textured(rng: np.random.Generator, count: int) -> Paint:
    """Draws patterned sprites, each in two of the scene's three colours, so colour does not identify an object."""
    palette = vivid(rng, 3)
    first = rng.integers(3, size=count)
    second = (first + rng.integers(1, 3, size=count)) % 3
    weave = np.where((np.add.outer(np.arange(SIZE), np.arange(SIZE)) // 2) % 2, 0.06, -0.06)
    background = rng.uniform(0.1, 0.9) + weave[:, :, None]
    return Paint(background, palette[first], palette[second], rng.integers(1, len(PATTERNS) + 1, count))


def on_grey(rng: np.random.Generator, count: int) -> Paint:
    """Draws vivid colours for the sprites and a uniform grey for the background."""
    return plain(np.full(3, rng.random()), vivid(rng, count))


PAINTS: dict[Variant, Callable[[np.random.Generator, int], Paint]] = {
    "binarized": lambda rng, count: plain(np.zeros(3), np.ones((count, 3))),
    "grayscale": on_grey,
    "crowded": on_grey,
    "colored": lambda rng, count: plain(rng.random(3), rng.random((count, 3))),
    "textured": textured,
}

# Where a pattern shows its second colour, given (u, v) of pixels: stripes, checks, dots.
PATTERNS: dict[int, Callable[[Array], Array]] = {
    1: lambda uv: np.floor(uv[0] / 3) % 2 == 0,
    2: lambda uv: (np.floor(uv[0] / 4) + np.floor(uv[1] / 4)) % 2 == 0,
    3: lambda uv: np.hypot(*(uv % 5 - 2.5)) < 1.8,
}
