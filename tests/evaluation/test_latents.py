"""Activeness and leakage, of a decoder whose answers are known and of released weights."""

from __future__ import annotations

import pytest
import torch

from emorl import load, open_dataset
from emorl.data import DataConfig
from emorl.data.base import SceneRange
from emorl.evaluation.latents import Edit, Leakage, activeness, latent_ranges, leakage
from emorl.plots.scenes import edit_row
from toys import SHIPPED, CountedGreys, Halves, Known


def test_ranges_are_those_of_the_slots() -> None:
    expected = torch.tensor([[0.0, 0.0, 0.0], [0.6, 10.0, 0.0]])
    torch.testing.assert_close(latent_ranges(Known(), CountedGreys()), expected)


def test_activeness_of_a_known_decoder() -> None:
    seen: list[tuple[int, int]] = []
    found = activeness(Known(), CountedGreys(), progress=lambda done, total: seen.append((done, total)))
    # One of two slots with masks of one half goes from 0 to 0.6 in six steps; dimension 2 has no range to go through.
    variance = torch.linspace(0, 0.6, 6).var() / 4
    torch.testing.assert_close(found.values, torch.tensor([float(variance), 0.0, 0.0]))
    assert found.active == [0]
    assert found.order[0] == 0
    assert seen[-1] == (4, 4)


def test_an_edit_leaks_where_slots_share_pixels_and_nowhere_else() -> None:
    clean = leakage(Halves(), CountedGreys())
    assert (clean.image, clean.others) == (0, 0)
    shared = leakage(Known(), CountedGreys())
    assert shared.image == pytest.approx(1)  # both slots own every pixel by half
    assert shared.others == pytest.approx(0, abs=1e-6)  # but only one of them has changed


def test_leakage_without_an_edit_that_does_something() -> None:
    assert leakage(Known(), SceneRange(CountedGreys(), 0, 1)).edits == ()


def test_edits_of_released_weights_stay_where_the_object_is() -> None:
    scenes = open_dataset(DataConfig("tetrominoes"), "test")
    model = load(SHIPPED)
    found = leakage(model, scenes, images=3)
    assert len(found.edits) > 20
    assert found.others < found.image < 0.15
    edit = found.typical(1)
    assert edit is not None
    image, rebuilt, _, after, change, *_ = (panel.astype(float) for panel in edit_row(model, scenes, edit))
    assert abs(image - rebuilt).mean() < 15
    assert change[..., 0] == pytest.approx(3 * abs(after - rebuilt).mean(axis=2).clip(0, 85), abs=6)


def test_strong_edits_count_most_and_are_shown() -> None:
    weak = [Edit(0, 0, d, 1.0, inside=0.01, outside=0.01, others=0.0) for d in range(18)]
    strong = [Edit(0, 0, 20, 1.0, inside=1.0, outside=leaked, others=0.0) for leaked in (0.3, 0.1, 0.2)]
    alone = Edit(1, 0, 0, 1.0, inside=0.8, outside=0.0, others=0.1)
    found = Leakage((*weak, *strong, alone))
    assert [found.typical(0), found.typical(1), found.typical(2)] == [strong[2], alone, None]
    assert found.image == pytest.approx((0.18 + 0.6) / (0.18 + 3 + 0.8))
    assert found.others == pytest.approx(0.1 / (0.18 + 3 + 0.8))


def test_released_weights_use_some_dimensions_and_leave_others() -> None:
    scenes = open_dataset(DataConfig("tetrominoes"), "test")
    found = activeness(load(SHIPPED), scenes, images=2)
    assert 8 <= len(found.active) <= 28
    idle = found.values.sort().values[:8]
    assert idle.max() < 1e-3 * found.values.max()  # a low KL has switched these off
