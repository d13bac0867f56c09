"""Pictures of CLEVR scenes: one ray per pixel of the 192x192 window that is usually cropped, four at edges."""

from __future__ import annotations

from typing import Literal

import numpy as np

from emorl.data.base import Array
from emorl.data.clevr.geometry import solids_of, trace, unit
from emorl.data.clevr.scene import ClevrScene
from emorl.data.clevr.shading import Stage, look

WIDTH, HEIGHT, FOCAL = 320, 240, 350.0
ROWS, COLUMNS = (29, 221), (64, 256)  # the window
EDGE = 0.04  # jump of linear brightness above which a pixel gets four rays
# Offsets of the four rays within a pixel: a rotated grid.
GRID = np.array([(-0.125, -0.375), (0.375, -0.125), (-0.375, 0.125), (0.125, 0.375)])
# Which quarter of a part of a lamp each of them aims at.
QUARTERS = np.array([(-1, -1), (1, -1), (-1, 1), (1, 1)], dtype=np.float32)[:, :, None] / 4
Quality = Literal["full", "fast"]


def rays_through(camera: Array, column: Array, row: Array) -> Array:
    """Returns directions (3, N) from the camera through points of the 320x240 picture; pixel centres are at halves."""
    forward = -camera / np.linalg.norm(camera)
    right = np.cross(forward, (0, 0, 1))
    right /= np.linalg.norm(right)
    up = np.cross(right, forward)
    d = FOCAL * forward[:, None] + (column - WIDTH / 2) * right[:, None] - (row - HEIGHT / 2) * up[:, None]
    return unit(d.astype(np.float32))


def window_grid(rows: tuple[int, int], columns: tuple[int, int]) -> tuple[Array, Array]:
    """Returns the rows and the columns of all pixel centres of a window, (N,) each, in reading order."""
    row, column = np.mgrid[rows[0] : rows[1], columns[0] : columns[1]]
    return row.ravel() + 0.5, column.ravel() + 0.5


def segment(scene: ClevrScene, rows: tuple[int, int] = ROWS, columns: tuple[int, int] = COLUMNS) -> Array:
    """Returns the number of the object at each pixel centre, from 1; 0 is the ground. The window by default."""
    row, column = window_grid(rows, columns)
    origin = scene.camera.astype(np.float32)[:, None]
    _, number = trace(solids_of(scene), origin, rays_through(scene.camera, column, row))
    return (number + 1).astype(np.uint8).reshape(rows[1] - rows[0], columns[1] - columns[0])


def render(scene: ClevrScene, quality: Quality = "full") -> tuple[Array, Array]:
    """Returns the window as 8-bit sRGB (192, 192, 3), and its segmentation (192, 192)."""
    stage = Stage.of(scene)
    origin = scene.camera.astype(np.float32)[:, None]
    row, column = window_grid(ROWS, COLUMNS)
    cell = np.stack([np.floor(column) % 2 - 0.5, np.floor(row) % 2 - 0.5]).astype(np.float32)
    rough = 2 if quality == "full" else 1
    color, number = look(stage, origin, rays_through(scene.camera, column, row), cell, rough=rough)
    side = (ROWS[1] - ROWS[0], COLUMNS[1] - COLUMNS[0])
    ids = (number + 1).reshape(side)
    if quality == "full":
        edge = np.flatnonzero(edges(ids, color.mean(axis=0).reshape(side)))
        directions = [rays_through(scene.camera, column[edge] + dx, row[edge] + dy) for dx, dy in GRID]
        cells = [cell[:, edge] + quarter for quarter in QUARTERS]
        samples, _ = look(stage, origin, np.hstack(directions), np.hstack(cells), rough=rough)
        color[:, edge] = np.minimum(samples, 4).reshape(3, len(GRID), -1).mean(axis=1)
    return to_srgb(color).T.reshape(*side, 3), ids.astype(np.uint8)


def edges(ids: Array, brightness: Array) -> Array:
    """Returns (H, W) bool: pixels beside another object, or beside a jump of brightness.

    Brightness is compared two pixels apart, where the same part of each lamp casts the shadows.
    """
    found = np.zeros(ids.shape, dtype=bool)
    capped = np.minimum(brightness, 4)
    for there, seen, bright in ((found, ids, capped), (found.T, ids.T, capped.T)):
        change = seen[1:] != seen[:-1]
        there[1:] |= change
        there[:-1] |= change
        there[1:-1] |= np.abs(bright[2:] - bright[:-2]) > EDGE
    return found


def to_srgb(linear: Array) -> Array:
    """Returns linear colours as 8-bit sRGB; values outside 0..1 are clipped."""
    clipped = np.clip(linear, 0, 1)
    encoded = np.where(clipped <= 0.0031308, 12.92 * clipped, 1.055 * clipped ** (1 / 2.4) - 0.055)
    return (encoded * 255 + 0.5).astype(np.uint8)
