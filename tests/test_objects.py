"""What slots hold, in numbers."""

from __future__ import annotations

import numpy as np
import pytest

from emorl.objects import COLUMNS, NOBODY, explained_share, object_table, owners


def test_a_slot_owns_what_it_has_more_than_half_of() -> None:
    masks = np.array([[[0.6, 0.5, 0.2]], [[0.4, 0.5, 0.3]], [[0.0, 0.0, 0.5]]])
    assert owners(masks).tolist() == [[0, NOBODY, NOBODY]]


def test_objects_are_measured_where_they_are() -> None:
    masks = np.zeros((3, 10, 20))
    masks[0] = 1
    masks[0, 2:5, 3:9], masks[2, 2:5, 3:9] = 0.2, 0.8
    masks[1, 0, 0] = 0.9  # hardly anything
    picture = np.full((3, 10, 20), 0.5)
    picture[:, 2:5, 3:9] = np.array([1.0, 0.25, 0.0])[:, None, None]
    table = object_table(masks, picture)
    assert list(table) == list(COLUMNS)
    assert table["slot"].tolist() == [0, 2]
    assert table["area"].tolist() == [182, 18]
    assert table["share"].tolist() == [0.91, 0.09]
    assert [table[side][1] for side in ("left", "top", "right", "bottom")] == [3, 2, 9, 5]
    assert [table["x"][1], table["y"][1]] == [6.0, 3.5]
    assert [table[color][1] for color in ("red", "green", "blue")] == [1.0, 0.25, 0.0]
    assert table["background"].tolist() == [True, False]


def test_a_picture_that_nobody_owns_has_no_objects() -> None:
    table = object_table(np.full((3, 4, 4), 1 / 3), np.zeros((3, 4, 4)))
    assert {name: len(values) for name, values in table.items()} == dict.fromkeys(COLUMNS, 0)


def test_explained_is_measured_against_a_picture_of_one_colour() -> None:
    picture = np.zeros((3, 8, 8))
    picture[:, :4] = 1
    assert explained_share(picture, picture) == 1
    assert explained_share(picture, np.full_like(picture, 0.5)) == 0
    assert explained_share(picture, 1 - picture) == 0
    assert explained_share(picture, picture * 0.8) == pytest.approx(1 - 0.02 / 0.25)
    grey = np.full((3, 8, 8), 0.5)
    assert explained_share(grey, grey + 0.002) > 0.98
    assert explained_share(grey, np.zeros_like(grey)) == 0  # black instead of grey is no success
