"""CLEVR: its scene rules, factors that agree with the pixels, and pictures close to Blender's."""

from __future__ import annotations

import colorsys

import numpy as np
import pytest
from PIL import Image

from conftest import SHARED
from emorl.data import DATASETS
from emorl.data.clevr import LEAST_VISIBLE, Clevr
from emorl.data.clevr.geometry import solids_of, trace
from emorl.data.clevr.render import HEIGHT, WIDTH, rays_through, render, segment
from emorl.data.clevr.scene import (
    BEHIND,
    CLEARANCE,
    COLORS,
    CUBE,
    CYLINDER,
    LARGE,
    LEFT,
    MARGIN,
    METAL,
    RUBBER,
    SMALL,
    SPHERE,
    ClevrScene,
    draw_scene,
)

BLENDER = SHARED / "clevr_blender_24.npz"


def single(
    shape: int, material: int = RUBBER, color: int = 1, radius: float = LARGE, yaw: float = 0.3
) -> ClevrScene:
    one = np.array
    return ClevrScene(
        x=one([0.0]), y=one([0.0]), radius=one([radius]), yaw=one([yaw]), shape=one([shape]),
        material=one([material]), color=one([color]), camera=one([7.4811, -6.5076, 5.3437]),
        lights=one([(6.4467, -2.9052, 4.2584), (-4.6711, -4.0136, 3.0112), (-1.1685, 2.6460, 5.8157)]),
    )  # fmt: skip


def test_scene_is_a_function_of_seed_and_index() -> None:
    one, other = DATASETS["clevr6"](seed=3, length=4), DATASETS["clevr6"](seed=3, length=100)
    a, b = one.arrays(2), other.arrays(2)
    assert all(np.array_equal(a[name], b[name], equal_nan=a[name].dtype.kind == "f") for name in a)
    assert not np.array_equal(a["image"], one.arrays(1)["image"])
    assert not np.array_equal(a["image"], DATASETS["clevr6"](seed=4).arrays(2)["image"])


def test_objects_keep_their_distance() -> None:
    rng = np.random.default_rng(0)
    for count in (3, 6, 10):
        scene = draw_scene(rng, count)
        place = np.stack([scene.x, scene.y], axis=1)
        assert np.abs(place).max() <= 3
        for i in range(count):
            for j in range(i):
                away = place[i] - place[j]
                assert np.hypot(*away) - scene.radius[i] - scene.radius[j] >= CLEARANCE
                assert min(abs(away @ BEHIND), abs(away @ LEFT)) >= MARGIN
        assert set(scene.radius) <= {LARGE, SMALL}
        assert scene.yaw.min() >= 0
        assert scene.yaw.max() < 2 * np.pi


def test_scenes_are_valid() -> None:
    scenes = Clevr((3, 10), length=12, quality="fast")
    for index in range(len(scenes)):
        scene, drawn = scenes.arrays(index), scenes.scene(index)
        assert 3 <= len(drawn) <= 10
        full = segment(drawn, (0, HEIGHT), (0, WIDTH))
        assert np.bincount(full.ravel(), minlength=len(drawn) + 1)[1:].min() >= LEAST_VISIBLE
        ids = scene["segmentation_full"]
        count = int((~np.isnan(scene["x"])).sum())
        assert np.array_equal(np.unique(ids), np.arange(count + 1))  # what the crop leaves out is not counted
        assert np.array_equal(scene["visible_pixels"][:count], np.bincount(ids.ravel())[1:])
        assert scene["image"].shape == (96, 96, 3)
        assert scene["segmentation"].shape == (96, 96)
        assert set(np.unique(scene["segmentation"])) <= set(range(count + 1))
        assert scene["z"][:count].tolist() == [
            pytest.approx(LARGE if size == 1 else SMALL) for size in scene["size"][:count]
        ]


@pytest.mark.parametrize("color", range(1, 9))
def test_the_named_color_is_the_color_of_the_pixels(color: int) -> None:
    pixels, ids = render(single(SPHERE, color=color), "fast")
    seen = colorsys.rgb_to_hsv(*(pixels[ids == 1].astype(float).mean(axis=0) / 255))
    meant = colorsys.rgb_to_hsv(*COLORS[color - 1])
    if meant[1] == 0:  # grey
        assert seen[1] < 0.12
    else:
        assert abs((seen[0] - meant[0] + 0.5) % 1 - 0.5) < 0.06
        assert seen[1] > 0.25


def test_shapes_are_what_they_are_called() -> None:
    areas = {shape: int((segment(single(shape)) == 1).sum()) for shape in (SPHERE, CYLINDER, CUBE)}
    assert areas[SPHERE] < areas[CYLINDER] < areas[CUBE]
    small = int((segment(single(SPHERE, radius=SMALL)) == 1).sum())
    assert small == pytest.approx(areas[SPHERE] / 4, rel=0.1)
    turned = [segment(single(CUBE, yaw=yaw)) for yaw in (0.3, 0.3 + np.pi / 2, 0.8)]
    assert (turned[0] != turned[1]).sum() <= 2  # a quarter of a turn changes nothing
    assert (turned[0] != turned[2]).sum() > 50
    camera = single(SPHERE).camera.astype(np.float32)[:, None]
    centre = rays_through(camera[:, 0], np.array([WIDTH / 2]), np.array([HEIGHT / 2]))
    distance, number = trace(solids_of(single(SPHERE)), camera, centre)  # it looks at the foot of the sphere
    assert number[0] == 0
    point = camera[:, 0] + distance[0] * centre[:, 0]
    assert np.linalg.norm(point - (0, 0, LARGE)) == pytest.approx(0.999 * LARGE, abs=1e-3)


def test_metal_shines_and_rubber_does_not() -> None:
    brightest = {
        material: render(single(SPHERE, material=material), "fast")[0].max() for material in (RUBBER, METAL)
    }
    assert brightest[METAL] > brightest[RUBBER]


def test_128_pixels_are_bilinear() -> None:
    scene = Clevr((3, 6), size=128, quality="fast").arrays(0)
    assert scene["image"].shape == (128, 128, 3)
    assert scene["segmentation"].shape == (128, 128)


@pytest.mark.skipif(not BLENDER.exists(), reason="Blender's pictures are not beside this clone")
def test_pictures_are_close_to_blenders() -> None:
    """RMSE at most 3.0 of 255 at 96x96, at most 0.1 % of the mask pixels different."""
    reference = np.load(BLENDER)
    errors, differences = [], []
    for index, count in enumerate(reference["n_objects"]):
        x, y, z, _, _, material, shape, color = reference["factors"][index][:count].T.astype(float)
        scene = ClevrScene(x, y, z, reference["yaw"][index][:count].astype(float), shape.astype(int),
                           material.astype(int), color.astype(int), reference["camera"][index],
                           reference["lights"][index])  # fmt: skip
        pixels, ids = render(scene)
        small = np.asarray(Image.fromarray(pixels).resize((96, 96), Image.Resampling.BICUBIC))
        errors.append(np.square(small.astype(float) - reference["images"][index]).mean())
        differences.append((ids != reference["masks"][index]).mean())
    assert np.sqrt(np.mean(errors)) <= 3.0
    assert np.mean(differences) <= 0.001
