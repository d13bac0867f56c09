"""Panels and pictures: what is where, in which colour."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from emorl.data import DataConfig, open_dataset
from emorl.data.base import SceneDataset
from emorl.evaluation.evaluate import Scores
from emorl.models import build
from emorl.models.base import Model
from emorl.panels import GAP, Panels, palette
from emorl.plots.scenes import (
    posterior_panels,
    posterior_row,
    scene_panels,
    step_names,
    worst_scenes,
)
from emorl.runs.presets import PRESETS
from emorl.types import Decomposition
from helpers import present
from toys import TINY, Toy

WHITE, RED = np.full((4, 4, 3), 255, np.uint8), np.full((4, 4, 3), (255, 0, 0), np.uint8)


@pytest.fixture(scope="module")
def tiny() -> Model:
    torch.manual_seed(0)
    return build(PRESETS[TINY].model).eval()


@pytest.fixture(scope="module")
def scenes() -> SceneDataset:
    return open_dataset(DataConfig(), "test")


def test_panels_are_where_they_belong() -> None:
    picture = np.array(Panels([[RED, None], [WHITE, RED]]).drawn())
    side = 24 * 4  # the least whole factor that reaches 96 pixels
    assert picture.shape == (2 * side + 3 * GAP, 2 * side + 3 * GAP, 3)
    corner, next_one = GAP + 5, 2 * GAP + side + 5
    assert picture[corner, corner].tolist() == [255, 0, 0]
    assert picture[corner, next_one].tolist() == [255, 255, 255]
    assert picture[next_one, corner].tolist() == [255, 255, 255]
    assert picture[next_one, next_one].tolist() == [255, 0, 0]
    strip = np.array(Panels([[RED, RED]]).strip(0, 1))
    assert strip.shape == (4, 8 + GAP, 4)
    assert strip[0, :, 3].tolist() == [255] * 4 + [0] * GAP + [255] * 4  # one sees through between panels


def test_names_stand_beside_rows_and_columns_with_the_colour_of_their_slot() -> None:
    bare = Panels([[RED, RED]]).drawn()
    named = Panels([[RED, RED]], ["a row"], ["image", "slot 0"], slots_from=1)
    drawn = named.drawn()
    assert drawn.width > bare.width
    assert drawn.height > bare.height
    assert named.colors == [None, tuple(palette(1)[0].tolist())]
    pixels = np.array(drawn).reshape(-1, 3)
    assert (pixels == palette(1)[0]).all(axis=1).any()


def test_scenes_apart_have_a_column_for_each_slot(tiny: Model, scenes: SceneDataset) -> None:
    panels = scene_panels(tiny, scenes, indices=[2, 0, 10_000], num_slots=5)
    assert [len(row) for row in panels.rows] == [8, 8]  # the scene that does not exist is left out
    assert panels.titles[2:] == ["masks", "slot 0", "slot 1", "slot 2", "slot 3", "slot 4"]
    expected = (scenes[2].image.permute(1, 2, 0).numpy() * 255).round()
    assert np.array_equal(present(panels.rows[0][0]), expected)


def test_the_worst_scenes_are_those_with_the_lowest_ari_or_the_largest_error() -> None:
    values = {"ari": torch.tensor([[0.9, 0.1, 0.5]]), "mse": torch.tensor([[3.0, 1.0, 2.0]])}
    assert worst_scenes(Scores(values, {}), 2) == [1, 2]
    del values["ari"]
    assert worst_scenes(Scores(values, {}), 2) == [0, 2]


def test_posteriors_have_a_row_for_each_layer_and_refinement(tiny: Model, scenes: SceneDataset) -> None:
    panels = posterior_panels(tiny, scenes, scene=1, num_steps=2)
    assert panels.labels == ["scene", "layer 1", "layer 2", "layer 3", "refined 1", "refined 2"]
    assert [len(row) for row in panels.rows] == [2, 7, 7, 7, 7, 7]
    assert [row[2] is None for row in panels.rows[1:]] == [False, False, False, True, True]
    assert panels.drawn().height > 5 * 96


def test_attention_lights_the_image_at_its_own_resolution() -> None:
    image = torch.full((3, 4, 4), 0.8)
    attention = torch.zeros(1, 2, 1, 2, 2)
    attention[0, 0, 0, 0, 0], attention[0, 1, 0, 1:] = 0.5, 0.25
    masks = torch.full((1, 2, 1, 4, 4), 0.5)
    step = Decomposition(masks, torch.zeros(1, 2, 3, 4, 4), torch.zeros(1, 2, 3), attention)
    *_, assigned, first, second = posterior_row(image, step)
    assert assigned is not None
    assert first is not None
    assert second is not None
    assert (first[:2, :2] == 204).all()  # as bright as the image where attention is greatest
    assert first[2:].max() == first[:, 2:].max() == 0
    assert (second[2:] == 204).all()
    assert (assigned[2:] == palette(2)[1]).all()
    without = posterior_row(image, replace(step, attention=None))
    assert without[2] is None
    assert (present(without[3]) == 204).all()  # by its mask, which is the same everywhere


def test_steps_that_are_all_alike_are_just_steps() -> None:
    bare = Toy().decode(torch.zeros(1, 2, 3))
    attending = replace(bare, attention=torch.ones(1, 2, 1, 2, 2))
    assert step_names([bare, bare]) == ["step 1", "step 2"]
    assert step_names([attending]) == ["step 1"]
    assert step_names([attending, bare]) == ["layer 1", "refined 1"]
