"""Where rays meet spheres, rounded cylinders and rounded cubes. Vectors are (3, N) float32 arrays.

For cubes and cylinders, a ray is first cut with the shape with sharp edges, and from there walks to the rounded one in
a few steps that never overshoot (sphere tracing).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emorl.data.base import Array
from emorl.data.clevr.scene import CUBE, CYLINDER, SPHERE, ClevrScene

BOUND = {SPHERE: 1.0, CYLINDER: 1.40, CUBE: 1.61}  # radius of a sphere around the solid, in radii
ROUNDING = {CYLINDER: 0.07, CUBE: 0.18}  # of the edges, in radii
SPHERE_RADIUS = 0.999  # the published mesh is a polyhedron, a little smaller than its sphere
STEPS, NEAR = 12, 1e-3
NOTHING = -1


@dataclass(frozen=True)
class Solid:
    """One object as ray casting needs it; `cos` and `sin` are of its yaw."""

    number: int
    shape: int
    center: Array  # (3, 1)
    radius: float
    cos: float
    sin: float

    def into(self, v: Array) -> Array:
        """Returns vectors (3, N) in the solid's own frame."""
        if self.shape != CUBE:
            return v
        return np.stack([self.cos * v[0] + self.sin * v[1], self.cos * v[1] - self.sin * v[0], v[2]])

    def out_of(self, v: Array) -> Array:
        """Returns vectors (3, N) of the solid's own frame in that of the scene."""
        if self.shape != CUBE:
            return v
        return np.stack([self.cos * v[0] - self.sin * v[1], self.sin * v[0] + self.cos * v[1], v[2]])


def solids_of(scene: ClevrScene) -> list[Solid]:
    """Returns the objects of a scene as solids, numbered from 0."""
    return [
        Solid(
            number=number,
            shape=int(scene.shape[number]),
            center=np.array([[scene.x[number]], [scene.y[number]], [radius]], dtype=np.float32),
            radius=float(radius),
            cos=float(np.cos(scene.yaw[number])),
            sin=float(np.sin(scene.yaw[number])),
        )
        for number, radius in enumerate(scene.radius)
    ]


def dot(a: Array, b: Array) -> Array:
    """Returns the dot products (N,) of two arrays of vectors (3, N)."""
    result: Array = a[0] * b[0] + a[1] * b[1] + a[2] * b[2]
    return result


def cross(a: Array, b: Array) -> Array:
    """Returns the cross products (3, N) of two arrays of vectors (3, N)."""
    return np.stack([a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0]])


def unit(v: Array) -> Array:
    """Returns vectors (3, N) scaled to length 1."""
    result: Array = v / np.sqrt(dot(v, v))
    return result


def trace(
    solids: list[Solid], origin: Array, direction: Array, own: Array | None = None
) -> tuple[Array, Array]:
    """Returns the distance to the first solid on each ray and its number, or infinity and NOTHING.

    A ray that starts on a solid, number `own`, does not meet it again: solids are convex.
    """
    count = direction.shape[1]
    distance = np.full(count, np.inf, dtype=np.float32)
    number = np.full(count, NOTHING, dtype=np.int16)
    for solid in solids:
        rays, t = meet(solid, origin, direction, own)
        is_first = t < distance[rays]
        rays = rays[is_first]
        distance[rays], number[rays] = t[is_first], solid.number
    return distance, number


def is_hidden(solids: list[Solid], origin: Array, direction: Array, own: Array | None = None) -> Array:
    """Returns (N,) bool: whether a ray meets any solid."""
    hidden = np.zeros(direction.shape[1], dtype=bool)
    for solid in solids:
        rays, t = meet(solid, origin, direction, own)
        hidden[rays[np.isfinite(t)]] = True
    return hidden


def meet(solid: Solid, origin: Array, direction: Array, own: Array | None) -> tuple[Array, Array]:
    """Returns the rays that come near `solid`, and the distance at which they meet it or infinity."""
    offset = origin - solid.center
    along = dot(offset, direction)
    inside = along * along - dot(offset, offset) + (BOUND[solid.shape] * solid.radius) ** 2
    is_near = (inside > 0) & (along < np.sqrt(np.maximum(inside, 0)))
    if own is not None:
        is_near &= own != solid.number
    rays = np.flatnonzero(is_near)
    if len(rays) == 0:
        return rays, np.empty(0, dtype=np.float32)
    if solid.shape == SPHERE:
        along = along[rays]
        depth = inside[rays] - (1 - SPHERE_RADIUS**2) * solid.radius**2
        t = -along - np.sqrt(np.maximum(depth, 0))
        return rays, np.where((depth > 0) & (t > 0), t, np.inf).astype(np.float32)
    offset = offset[:, rays] if offset.shape[1] > 1 else np.broadcast_to(offset, (3, len(rays)))
    local_offset = solid.into(offset) / np.float32(solid.radius)
    local_direction = solid.into(direction[:, rays])
    enter = enter_cube if solid.shape == CUBE else enter_cylinder
    start, stop = enter(local_offset, local_direction)
    start = np.maximum(start, 0)  # a ray from a rounded edge starts inside the shape with sharp edges
    t = np.full(len(rays), np.inf, dtype=np.float32)
    chosen = np.flatnonzero(start < stop)
    if len(chosen):
        t[chosen] = approach(
            solid.shape, local_offset[:, chosen], local_direction[:, chosen], start[chosen], stop[chosen]
        )
    return rays, t * np.float32(solid.radius)


def enter_cube(o: Array, d: Array) -> tuple[Array, Array]:
    """Returns the distances at which rays enter and leave the cube of half-side 1."""
    with np.errstate(divide="ignore", invalid="ignore"):
        inverse = 1 / d
        one, other = (-1 - o) * inverse, (1 - o) * inverse
    return np.minimum(one, other).max(axis=0), np.maximum(one, other).min(axis=0)


def enter_cylinder(o: Array, d: Array) -> tuple[Array, Array]:
    """Returns the distances at which rays enter and leave the upright cylinder of radius and half-height 1."""
    a = np.maximum(d[0] * d[0] + d[1] * d[1], 1e-12)
    b = o[0] * d[0] + o[1] * d[1]
    root = b * b - a * (o[0] * o[0] + o[1] * o[1] - 1)
    width = np.sqrt(np.maximum(root, 0))
    with np.errstate(divide="ignore", invalid="ignore"):
        one, other = (-1 - o[2]) / d[2], (1 - o[2]) / d[2]
    start = np.maximum((-b - width) / a, np.minimum(one, other))
    stop = np.minimum((-b + width) / a, np.maximum(one, other))
    return np.where(root > 0, start, np.inf), stop


def approach(shape: int, o: Array, d: Array, start: Array, stop: Array) -> Array:
    """Walks from `start` by the distance to the rounded solid; returns where it is met, or infinity."""
    t = start.astype(np.float32)
    for _ in range(STEPS):
        gap = gap_to(shape, o + t * d)
        t = t + gap
        if (gap < NEAR / 10).all():
            break
    return np.where((gap < NEAR) & (t < stop + NEAR), t, np.float32(np.inf))


def gap_to(shape: int, p: Array) -> Array:
    """Returns the distance of points from the rounded solid of radius 1; negative inside."""
    q = beyond_core(shape, p)
    squared, inside = np.zeros_like(q[0]), q[0]
    for axis in q:  # faster than reducing over an axis of two or three
        outside = np.maximum(axis, 0)
        squared += outside * outside
        inside = np.maximum(inside, axis)
    gap: Array = np.sqrt(squared) + np.minimum(inside, 0) - np.float32(ROUNDING[shape])
    return gap


def beyond_core(shape: int, p: Array) -> list[Array]:
    """Returns how far points are outside the solid's core (the solid less its rounding), for each of its axes."""
    core = np.float32(1 - ROUNDING[shape])
    if shape == CUBE:
        return [np.abs(axis) - core for axis in p]
    return [np.sqrt(p[0] * p[0] + p[1] * p[1]) - core, np.abs(p[2]) - core]


def normals(solids: list[Solid], number: Array, point: Array) -> Array:
    """Returns outward unit vectors (3, N) at points on the solids with those numbers."""
    result = np.empty_like(point)
    for solid in solids:
        here = np.flatnonzero(number == solid.number)
        if len(here) == 0:
            continue
        p = solid.into(point[:, here] - solid.center) / np.float32(solid.radius)
        if solid.shape == SPHERE:
            n = p
        else:
            outside = np.maximum(np.stack(beyond_core(solid.shape, p)), 1e-6)
            if solid.shape == CUBE:
                n = np.sign(p) * outside
            else:
                side = outside[0] / np.maximum(np.hypot(p[0], p[1]), 1e-6)
                n = np.stack([p[0] * side, p[1] * side, np.sign(p[2]) * outside[1]])
        result[:, here] = unit(solid.out_of(n))
    return result
