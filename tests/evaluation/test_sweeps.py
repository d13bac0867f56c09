"""Sweeps: scores while one thing changes, with a model whose answers are known, and with released weights."""

from __future__ import annotations

import pytest

from emorl import UserError, load, open_dataset
from emorl.data import DATASETS, DataConfig
from emorl.evaluation.evaluate import evaluate
from emorl.evaluation.sweeps import by_objects, stability, sweep
from toys import SHIPPED, CountedGreys, Known


def test_sweeps_are_evaluations() -> None:
    model, scenes = load(SHIPPED), open_dataset(DataConfig("tetrominoes"), "test")
    rows = sweep(model, scenes, "num_steps", (0, 2), images=4)
    assert [row["value"] for row in rows] == [0, 2]
    direct = evaluate(model, scenes, num_steps=2, images=4)
    assert rows[1]["mse"] == direct.mean("mse")
    assert rows[1]["mse_error"] == direct.standard_error("mse")
    assert rows[0]["kl_hierarchical"] == pytest.approx(rows[1]["kl_hierarchical"])  # stage 1 is the same
    (row,) = sweep(model, scenes, "num_slots", (6,), images=4)
    assert row["ari"] == evaluate(model, scenes, num_slots=6, images=4).mean("ari")


def test_scores_apart_by_number_of_objects() -> None:
    scores = evaluate(Known(), CountedGreys())
    rows = by_objects(scores, CountedGreys())
    assert [(row["value"], row["images"]) for row in rows] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    assert rows[2]["ari"] == pytest.approx(float(scores.values["ari"][0, 2]))


def test_one_model_sees_a_scene_always_alike_the_other_does_not() -> None:
    assert stability(Known(), CountedGreys(), seeds=3, images=4).tolist() == [1.0] * 4
    untrained = open_dataset(DataConfig("tetrominoes-crowded"), "test")
    found = stability(load(SHIPPED), untrained, seeds=3, images=6)
    assert found.shape == (6,)
    assert found.min() < 0.95  # five pieces and four slots: something has to give, each time something else
    with pytest.raises(UserError, match="at least 2"):
        stability(Known(), CountedGreys(), seeds=1)


@pytest.mark.parametrize(
    ("name", "counts"), [("tetrominoes-crowded", {5}), ("multi-dsprites-crowded", {6, 7})]
)
def test_crowded_scenes_have_more_objects_than_models_learn_from(name: str, counts: set[int]) -> None:
    scenes = DATASETS[name](length=8)
    assert scenes.info.name == name
    assert {len(scenes[index].segmentation.unique()) - 1 for index in range(8)} == counts
