"""Tetrominoes: three bevelled pieces on black, 35x35, pixel for pixel like the published set.

19 shapes with their orientations (the published README says 17), six colours, no overlap, any integer position.
Factors carry the published names: `x` is the top row and `y` the left column of a piece's bounding box.
"""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np

from emorl.data.base import Array, Arrays, DatasetInfo, SceneDataset

SIZE, BLOCK, PIECES = 35, 5, 3

# Cells (row, column) of the pieces; shape ids 1-19 in this order: I, L and J, S and Z, T, O.
CELLS = np.array(
    [
        [(0, 0), (0, 1), (0, 2), (0, 3)],
        [(0, 0), (1, 0), (2, 0), (3, 0)],
        [(0, 0), (0, 1), (0, 2), (1, 0)],
        [(0, 0), (1, 0), (1, 1), (1, 2)],
        [(0, 2), (1, 0), (1, 1), (1, 2)],
        [(0, 0), (0, 1), (0, 2), (1, 2)],
        [(0, 0), (0, 1), (1, 1), (2, 1)],
        [(0, 1), (1, 1), (2, 0), (2, 1)],
        [(0, 0), (0, 1), (1, 0), (2, 0)],
        [(0, 0), (1, 0), (2, 0), (2, 1)],
        [(0, 0), (0, 1), (1, 1), (1, 2)],
        [(0, 1), (0, 2), (1, 0), (1, 1)],
        [(0, 1), (1, 0), (1, 1), (2, 0)],
        [(0, 0), (1, 0), (1, 1), (2, 1)],
        [(0, 1), (1, 0), (1, 1), (1, 2)],
        [(0, 0), (0, 1), (0, 2), (1, 1)],
        [(0, 1), (1, 0), (1, 1), (2, 1)],
        [(0, 0), (1, 0), (1, 1), (2, 0)],
        [(0, 0), (0, 1), (1, 0), (1, 1)],
    ]
)
BEVEL = np.array(
    [
        [191, 255, 255, 255, 223],
        [127, 159, 159, 159, 191],
        [127, 159, 159, 159, 191],
        [127, 159, 159, 159, 191],
        [95, 63, 63, 63, 127],
    ],
    dtype=np.uint8,
)
COLORS = np.array([c for c in itertools.product((0, 1), repeat=3) if 0 < sum(c) < 3], dtype=np.uint8)

# Flat pixel indices (19, 100) of each piece at the top left, the brightness of those pixels, and the free range of
# (top row, left column): a piece is drawn by adding its offset to its indices.
_rows, _columns = np.divmod(np.arange(BLOCK * BLOCK), BLOCK)
PIXELS = (
    (CELLS[:, :, :1] * BLOCK + _rows) * SIZE + CELLS[:, :, 1:] * BLOCK + _columns
).reshape(len(CELLS), -1)  # fmt: skip
SHADES = np.tile(BEVEL.reshape(-1), 4)
FREE = SIZE - BLOCK * (CELLS.max(axis=1) + 1) + 1

INFO = DatasetInfo(
    name="tetrominoes",
    image_size=SIZE,
    max_objects=PIECES,
    factors={
        "x": "continuous",
        "y": "continuous",
        "shape": "discrete",
        "color": "discrete",
        "visibility": "discrete",
    },
    description="three tetris-like pieces on black, 19 shapes and 6 colours, 35x35; pixel-exact",
    title="Tetrominoes",
)


class Tetrominoes(SceneDataset):
    """Scene i is a pure function of (seed, i)."""

    def __init__(self, pieces: int = PIECES, *, seed: int = 0, length: int = 60_000) -> None:
        self.pieces = pieces
        self.seed = seed
        self.length = length
        self.info = replace(INFO, origin=f"seed {seed}")
        if pieces != PIECES:
            text = (
                f"{pieces} pieces instead of three: for models that have learned from three, with another K"
            )
            self.info = replace(
                self.info,
                name="tetrominoes-crowded",
                max_objects=pieces,
                description=text,
                title="crowded Tetrominoes",
            )

    def __len__(self) -> int:
        return self.length

    def arrays(self, index: int) -> Arrays:
        rng = np.random.default_rng((self.seed, index))
        shapes, offsets = place_pieces(rng, self.pieces)
        colors = COLORS[rng.integers(len(COLORS), size=self.pieces)]
        return render(shapes, offsets, colors)


def place_pieces(rng: np.random.Generator, pieces: int) -> tuple[Array, Array]:
    """Draws shape indices (P,) and (top row, left column) (P, 2), uniform among scenes without overlap."""
    one, other = np.array(list(itertools.combinations(range(pieces), 2))).T
    # One scene of three pieces in seven has no overlap, and far fewer of more: many are drawn and tested at a time.
    candidates = 16 if pieces <= PIECES else 512
    while True:
        uniform = rng.random((candidates, pieces, 3))
        shapes = (uniform[..., 0] * len(CELLS)).astype(int)
        offsets = (uniform[..., 1:] * FREE[shapes]).astype(int)
        corners = CELLS[shapes] * BLOCK + offsets[:, :, None]  # (candidates, P, 4, 2)
        first, second = corners[:, one, :, None], corners[:, other, None]
        overlap = (abs(first - second) < BLOCK).all(axis=-1).any(axis=(1, 2, 3))
        if not overlap.all():
            accepted = overlap.argmin()
            return shapes[accepted], offsets[accepted]


def render(shapes: Array, offsets: Array, colors: Array) -> Arrays:
    """Draws pieces of the given shape indices at (row, column) `offsets` in 0/1 RGB `colors`."""
    pixels = PIXELS[shapes] + (offsets @ (SIZE, 1))[:, None]
    image = np.zeros((SIZE * SIZE, 3), dtype=np.uint8)
    segmentation = np.zeros(SIZE * SIZE, dtype=np.uint8)
    image[pixels] = SHADES[:, None] * colors[:, None]
    segmentation[pixels] = np.arange(1, len(shapes) + 1, dtype=np.uint8)[:, None]
    return {
        "image": image.reshape(SIZE, SIZE, 3),
        "segmentation": segmentation.reshape(SIZE, SIZE),
        "x": offsets[:, 0].astype(np.float32),
        "y": offsets[:, 1].astype(np.float32),
        "shape": (shapes + 1).astype(np.float32),
        "color": colors.astype(np.float32),
        "visibility": np.ones(len(shapes), dtype=np.float32),
    }
