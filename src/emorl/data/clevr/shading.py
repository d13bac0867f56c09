"""How much light leaves a point towards the eye: lamps, shadows, ground, rubber and metal. Linear RGB, (3, N).

Constants are CLEVR's own, read from its Blender files, but for three that stand in for light that bounces more than
once (WALL, BLEED, AMBIENT), which were fitted to Blender's pictures.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from emorl.data.base import Array
from emorl.data.clevr.geometry import NOTHING, Solid, cross, dot, is_hidden, normals, solids_of, trace, unit
from emorl.data.clevr.scene import METAL, ClevrScene

PI = np.float32(np.pi)
WALL, BLEED, AMBIENT = np.float32(0.010), np.float32(1.0), np.float32(0.78)
GROUND = np.float32(0.8)  # reflectance

# Irradiance at distance 1, colour, side of the square lamp: key, fill, back.
POWER = np.array([25.0, 7.5, 12.5], dtype=np.float32)
TINT = np.array(
    [(1, 0.9323092, 0.8166636), (0.7616662, 0.8177196, 1), (1, 1, 1)], dtype=np.float32
)  # fmt: skip
RADIANCE = np.array([100.0, 30.0, 12.5], dtype=np.float32)
LAMP_EDGE = np.float32(0.25)  # over which a mirrored lamp fades
LAMP_SIDE = np.array([0.5, 0.5, 1.0], dtype=np.float32)
SUN = np.array([[0.41450], [-0.19458], [0.88901]], dtype=np.float32)
SUN_POWER, SUN_SPREAD = np.float32(0.45), np.float32(0.0997)
BLUR = 0.7 * np.array([0.016, 0.018, 0.04, 0.05], dtype=np.float32)  # of mirrored lamps: they have a size

# The ground is a sheet, bent up behind: a curve (distance from the front, height) drawn out sideways.
ORIGIN = np.array([-24.062761, -17.99667, 0.0], dtype=np.float32)[:, None]
BACK = np.array([-0.90320766, 0.42920378, 0.0], dtype=np.float32)[:, None]
SIDE = np.array([-0.42920378, -0.90320766, 0.0], dtype=np.float32)[:, None]
SIDEWAYS = (-56.48, 0.0)
_t = np.array([0, 8, 13, 17, 21, 26, 31, 36, 41, 47], dtype=np.float64)
_back = np.array([-3.5624083e-6, 7.654092e-4, -5.747448e-2, 1.968391, -23.555691])
_up = np.array([4.75747e-6, 0, 0, 0, 0])
CURVE = np.stack([np.polyval(_back, _t), np.polyval(_up, _t)]).astype(np.float32)  # (2, 10)
_slope = np.stack([np.polyval(np.polyder(_back), _t), np.polyval(np.polyder(_up), _t)])
CURVE_NORMAL = (np.stack([-_slope[1], _slope[0]]) / np.hypot(*_slope)).astype(np.float32)


@dataclass(frozen=True)
class Stage:
    """A scene, and what is computed once for all of its rays."""

    solids: list[Solid]
    is_metal: Array  # (n,)
    rgb: Array  # (3, n)
    lights: Array  # (3, 3), one per row
    under: Array  # (3, n), irradiance of the ground where an object stands, without its shadow

    @staticmethod
    def of(scene: ClevrScene) -> Stage:
        """Returns what the renderer needs to know of a scene."""
        lights = scene.lights.astype(np.float32)
        up = np.zeros((3, len(scene)), dtype=np.float32)
        up[2] = 1
        foot = np.stack([scene.x, scene.y, np.zeros(len(scene))]).astype(np.float32)
        under = sum((light for light, _ in lamps(lights, foot, up)), start=np.zeros_like(foot))
        return Stage(solids_of(scene), scene.material == METAL, scene.rgb.T, lights, under)


def lamps(lights: Array, point: Array, normal: Array) -> list[tuple[Array, Array]]:
    """Returns irradiance (3, N) of each lamp and the sun, without shadows, and the direction (3, N) to it."""
    result = []
    for position, power, tint in zip(lights, POWER, TINT, strict=True):
        towards = position[:, None] - point
        squared = dot(towards, towards)
        towards = towards / np.sqrt(squared)
        facing = np.maximum(dot(towards, unit(position[:, None])), 0)
        strength = power * facing * np.maximum(dot(towards, normal), 0) / squared
        result.append((strength * tint[:, None], towards))
    strength = SUN_POWER * np.maximum(dot(SUN, normal), 0)
    result.append((np.broadcast_to(strength, (3, point.shape[1])), np.broadcast_to(SUN, point.shape)))
    return result


def lit(
    stage: Stage, point: Array, normal: Array, own: Array | None, cell: Array
) -> list[tuple[Array, Array]]:
    """Returns `lamps` with shadows. `cell` (2, N), in -1..1, is the point on a lamp that each shadow ray aims at."""
    result = []
    places = [*stage.lights, None]
    for (strength, towards), position, side in zip(
        lamps(stage.lights, point, normal), places, [*LAMP_SIDE, 0], strict=True
    ):
        _, across, upwards = lamp_axes(SUN if position is None else position)
        shift = across * cell[0] + upwards * cell[1]
        is_sun = position is None
        aim = unit(SUN + SUN_SPREAD * shift if is_sun else position[:, None] + side / 2 * shift - point)
        rays = np.flatnonzero(strength[0] > 0)
        hidden = is_hidden(stage.solids, point[:, rays], aim[:, rays], None if own is None else own[rays])
        strength = strength.copy()
        strength[:, rays[hidden]] = 0
        result.append((strength, towards))
    return result


def ground_hit(origin: Array, direction: Array) -> tuple[Array, Array, Array]:
    """Returns the distance to the ground or infinity, its normal there, and how far towards the back that is."""
    start = origin - ORIGIN
    o = np.stack(np.broadcast_arrays(dot(start, BACK), start[2]))
    d = np.stack([dot(direction, BACK), direction[2]])
    count = d.shape[1]
    o = np.broadcast_to(o, (2, count))
    distance = np.full(count, np.inf, dtype=np.float32)
    normal2 = np.zeros((2, count), dtype=np.float32)
    for a, b, n_a, n_b in zip(CURVE.T, CURVE.T[1:], CURVE_NORMAL.T, CURVE_NORMAL.T[1:], strict=False):
        e = b - a
        cross = d[0] * e[1] - d[1] * e[0]
        with np.errstate(divide="ignore", invalid="ignore"):
            t = ((a[0] - o[0]) * e[1] - (a[1] - o[1]) * e[0]) / cross
            s = ((a[0] - o[0]) * d[1] - (a[1] - o[1]) * d[0]) / cross
        is_hit = (t > 1e-4) & (t < distance) & (s >= 0) & (s <= 1)
        distance = np.where(is_hit, t, distance)
        s = np.where(is_hit, s, 0)  # rays along the segment have none
        normal2 = np.where(is_hit, n_a[:, None] * (1 - s) + n_b[:, None] * s, normal2)
    with np.errstate(invalid="ignore"):
        sideways = dot(start, SIDE) + distance * dot(direction, SIDE)
    distance[(sideways < SIDEWAYS[0]) | (sideways > SIDEWAYS[1])] = np.inf
    normal = BACK * normal2[0]
    normal[2] = normal2[1]
    back = o[0] + np.where(np.isfinite(distance), distance, 0) * d[0]
    return distance, normal, back


def ground(stage: Stage, point: Array, normal: Array, back: Array, cell: Array) -> Array:
    """Returns light (3, N) from the ground: lamps with shadows, the wall behind, and colour reflected by objects."""
    light = sum(
        (strength for strength, _ in lit(stage, point, normal, None, cell)), start=np.zeros_like(point)
    )
    step = np.clip((back + 12) / 10, 0, 1)
    light = light + PI * WALL * (1 + 1.5 * step * step * (3 - 2 * step))
    for solid in stage.solids:
        towards = solid.center - point
        squared = dot(towards, towards)
        r2 = np.float32(solid.radius**2)
        share = np.minimum(r2 / (squared + np.float32(0.1) * r2), 1)
        share = share * np.maximum(dot(towards, normal), 0) / np.sqrt(squared)
        glow = BLEED * np.float32(0.45) * stage.rgb[:, solid.number] * stage.under[:, solid.number]
        light = light + share * glow[:, None]
    return np.asarray(light * (GROUND / PI))


def fresnel(cosine: Array, ior: float) -> Array:
    """Returns the share of light that a dielectric reflects, 0 to 1."""
    g = np.sqrt(ior * ior - 1 + cosine * cosine)
    a = (g - cosine) / (g + cosine)
    b = (cosine * (g + cosine) - 1) / (cosine * (g - cosine) + 1)
    return np.asarray(0.5 * a * a * (1 + b * b), dtype=np.float32)


def velvet(nv: Array, nl: Array, nh: Array, vh: Array) -> Array:
    """Returns Ashikhmin's velvet, times the cosine of the light, as in Cycles, with sigma 0.6."""
    sharpness = np.float32(1 / 0.6**2)
    ratio = np.maximum(nh / np.maximum(vh, 1e-5), 1e-5)
    sine2 = np.maximum(1 - nh * nh, 1e-6)
    spread = np.exp(-nh * nh / sine2 * sharpness) * sharpness / (PI * sine2 * sine2)
    masking = np.minimum(1, 2 * ratio * np.minimum(nv, nl))
    return np.asarray(0.25 * spread * masking / nv)


def beckmann(nh: Array, alpha: float) -> Array:
    """Returns the density of Beckmann's microfacets at `nh`, the cosine of normal and half vector."""
    cos2 = np.maximum(nh * nh, 1e-6)
    return np.asarray(np.exp((cos2 - 1) / (cos2 * alpha**2)) / (PI * alpha**2 * cos2 * cos2))


def ggx(nh: Array, alpha2: Array | float) -> Array:
    """Returns the density of GGX microfacets at `nh`, the cosine of normal and half vector; `alpha2` is roughness²."""
    return np.asarray(alpha2 / (PI * (nh * nh * (alpha2 - 1) + 1) ** 2))


def rubber(stage: Stage, number: Array, point: Array, normal: Array, eye: Array, cell: Array) -> Array:
    """Returns light (3, N) from points on rubber towards the viewer, in direction `eye`."""
    nv = np.maximum(dot(normal, eye), 1e-3)
    floor = stage.under[:, number] * (GROUND / PI)
    indirect = PI * AMBIENT * floor * (1 - normal[2]) / 2 + PI * WALL * (1 + normal[2]) / 2
    diffuse, fuzz, gloss = indirect, 0.3 * indirect, 0.0
    for strength, towards in lit(stage, point, normal, number, cell):
        half = unit(towards + eye)
        nl, nh = np.maximum(dot(normal, towards), 1e-3), dot(normal, half)
        diffuse = diffuse + strength
        fuzz = fuzz + strength * (velvet(nv, nl, nh, dot(eye, half)) / nl)
        gloss = gloss + strength * (beckmann(nh, 0.35) / (4 * nv * nl))
    mirrored_z = 2 * nv * normal[2] - eye[2]
    around = np.where(mirrored_z < 0.15, GROUND * floor, WALL)
    outer, inner = fresnel(nv, 1.2), fresnel(nv, 1.4)
    body = (1 - outer) * stage.rgb[:, number] * ((1 - inner) * diffuse / PI + inner * fuzz)
    return np.asarray(body + outer * np.float32(0.8) * (gloss + around))


def metal(
    stage: Stage, number: Array, point: Array, normal: Array, eye: Array, cell: Array, rough: int
) -> Array:
    """Returns light (3, N) from metal, a partly blurred mirror. `rough`: samples of the blur; 0 leaves it sharp."""
    nv = np.maximum(dot(normal, eye), 1e-3)
    radius = np.array([solid.radius for solid in stage.solids], dtype=np.float32)[number]
    shine = np.zeros_like(point)
    mirrored = 2 * nv * normal - eye
    is_flat = normal[2] > 0.9999  # tops of cubes and cylinders: lamps are seen in them
    for lamp, (strength, towards) in enumerate(lit(stage, point, normal, number, cell)):
        nl, nh = np.maximum(dot(normal, towards), 1e-3), dot(normal, unit(towards + eye))
        alpha2 = 0.01**2 + BLUR[lamp] ** 2 + (0.4 * 0.03 / radius) ** 2
        spot = strength * ggx(nh, alpha2) / (4 * nv * nl)
        if lamp < len(stage.lights) and is_flat.any():
            seen = lamp_in_mirror(stage.lights[lamp], LAMP_SIDE[lamp], point, mirrored) * (strength[0] > 0)
            spot = np.where(is_flat, RADIANCE[lamp] * seen * TINT[lamp][:, None], spot)
        shine += 0.6 * spot + 0.4 * strength * (ggx(nh, 0.2**2) / (4 * nv * nl))
    sharp = surroundings(stage, number, point, mirrored, cell)
    blurred = np.zeros_like(point)
    across = unit(np.stack([-normal[1], normal[0], np.full_like(nv, 1e-4)]))
    along = cross(normal, across)
    for sample in range(rough):
        # GGX half vectors, alpha 0.2; the four pixels of a block and the samples share the lobe among them.
        place = (cell[0] > 0) + 2 * (cell[1] > 0) + 4 * sample
        u = (place * 3 % (4 * rough) + 0.5) / (4 * rough)
        cosine = (1 / np.sqrt(1 + 0.2**2 * u / (1 - u))).astype(np.float32)
        sine = np.sqrt(1 - cosine**2)
        turn = (2 * np.pi * 0.618034 * place).astype(np.float32)
        half = cosine * normal + sine * (np.cos(turn) * across + np.sin(turn) * along)
        mirrored = unit(2 * dot(half, eye) * half - eye)
        blurred += surroundings(stage, number, point, mirrored, cell) * (dot(mirrored, normal) > 0)
    blurred = blurred / rough if rough else sharp
    return np.asarray(stage.rgb[:, number] * (shine + 0.6 * sharp + 0.4 * blurred))


def lamp_in_mirror(position: Array, side: float, point: Array, direction: Array) -> Array:
    """Returns how much of a square lamp with soft edges each ray meets, (N,) from 0 to 1."""
    axis, across, upwards = lamp_axes(position)
    facing = np.maximum(dot(direction, axis), 1e-3)
    hit = point + dot(position[:, None] - point, axis) / facing * direction - position[:, None]
    cover = np.ones(point.shape[1], dtype=np.float32)
    for along in (across, upwards):
        cover = cover * np.clip((side / 2 - np.abs(dot(hit, along))) / LAMP_EDGE + 0.5, 0, 1)
    return np.asarray(cover)


def lamp_axes(position: Array) -> tuple[Array, Array, Array]:
    """Returns unit vectors (3, 1): towards a lamp from the centre of the scene, which it faces, and its two sides."""
    axis = unit(position.reshape(3, 1))
    across = unit(np.stack([axis[1], -axis[0], 0 * axis[2]]))
    return axis, across, cross(across, axis)


def surroundings(stage: Stage, own: Array, point: Array, direction: Array, cell: Array) -> Array:
    """Returns the colours (3, N) that metal mirrors; other metal is seen there without its own reflections."""
    color, _ = look(stage, point, direction.astype(np.float32), cell, own=own)
    return color


def look(
    stage: Stage, origin: Array, direction: Array, cell: Array, *, own: Array | None = None, rough: int = 0
) -> tuple[Array, Array]:
    """Returns the colour (3, N) each ray meets, and the solid's number. `own`: the metal solids that rays come from."""
    distance, number = trace(stage.solids, origin, direction, own)
    color = np.zeros(direction.shape, dtype=np.float32)

    def points(rays: Array, t: Array) -> Array:
        start = origin[:, rays] if origin.shape[1] > 1 else origin
        return np.asarray(start + t * direction[:, rays], dtype=np.float32)

    rays = np.flatnonzero(number == NOTHING)
    start = origin[:, rays] if origin.shape[1] > 1 else origin
    t, normal, back = ground_hit(start, direction[:, rays])
    is_hit = np.isfinite(t)
    rays, t = rays[is_hit], t[is_hit]
    color[:, rays] = ground(stage, points(rays, t), normal[:, is_hit], back[is_hit], cell[:, rays])

    is_metal = np.append(stage.is_metal, False)[number]
    for material in (False, True):
        rays = np.flatnonzero((number != NOTHING) & (is_metal == material))
        if len(rays) == 0:
            continue
        here, point = number[rays], points(rays, distance[rays])
        normal, eye = normals(stage.solids, here, point), -direction[:, rays]
        if not material:
            color[:, rays] = rubber(stage, here, point, normal, eye, cell[:, rays])
        elif own is None:
            color[:, rays] = metal(stage, here, point, normal, eye, cell[:, rays], rough)
        else:
            color[:, rays] = stage.rgb[:, here] * stage.under[:, here] * (GROUND / PI)
    return color, number
