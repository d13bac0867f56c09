"""The line chart: what training curves, sweeps, seeds and costs put into it, and what it draws."""

from __future__ import annotations

from typing import Any

import pytest

from emorl.plots.dots import comparison, scatter, sorted_scores
from emorl.plots.lines import (
    Line,
    Panel,
    cost_chart,
    cost_lines,
    line_chart,
    score_panels,
    seed_chart,
    smoothed,
)
from emorl.plots.training import Course, series, training_chart, training_panels


def test_lines_bands_goals_and_scales_are_drawn() -> None:
    band = Line([1, 2], [3.0, 4.0], "a", "#112233", low=[2.0, 3.0], high=[4.0, 5.0], note="end")
    dashed = Line([1, 2], [30.0, 40.0], "b", dash="--", marker="o")
    panels = [
        Panel("one", [band, dashed], "step", scale="log", goal=3.5, usual=1.5),
        Panel("two", [band], limits=(0.0, 9.0), ticks=[1, 2]),
        Panel("three", [band], scale="log-log"),
    ]
    chart = line_chart(panels, columns=2)
    first, second, third, unused = chart.axes
    assert [axes.get_yscale() for axes in (first, second, third)] == ["log", "linear", "log"]
    assert first.lines[0].get_color() == "#112233"
    assert len(first.lines) == 4  # two of data, the goal, and the usual value
    assert len(first.collections) == 1  # the band
    assert [text.get_text() for text in first.texts] == ["end"]
    assert second.get_ylim() == (0, 9)
    assert second.get_xticks().tolist() == [1, 2]
    assert not unused.get_visible()
    assert [text.get_text() for text in chart.legends[0].get_texts()] == ["a", "b"]
    assert line_chart([panels[1]]).legends == []  # one line needs no legend


@pytest.mark.parametrize(
    ("values", "scale"), [([1.0, 20.0], "log"), ([0.0, 20.0], "linear"), ([1.0, 2.0], "linear")]
)
def test_a_logarithmic_scale_is_for_positive_values_far_apart(values: list[float], scale: str) -> None:
    chart = line_chart([Panel("", [Line([1, 2], values)], scale="log")])
    assert chart.axes[0].get_yscale() == scale


def test_scores_are_drawn_by_their_names_and_units_in_metrics() -> None:
    rows = [{"value": I, "ari": 0.5, "mse": 2e-4 * I, "mse_error": 1e-4, "ari_recall": 0.1} for I in (1, 3)]
    panels = score_panels(
        {"x": rows, "y": [{"value": 2, "ari": 0.2}]}, label="I", goals={"mse": 7e-4}, usual=1
    )
    assert [panel.title for panel in panels] == ["ARI", "MSE (× 10⁻⁴)"]  # recall only where it is asked for
    ari, mse = panels
    assert [line.label for line in ari.lines] == ["x", "y"]
    assert ari.ticks == [1, 2, 3]
    assert mse.lines[0].y == pytest.approx([2, 6])
    assert mse.lines[0].low == pytest.approx([1, 5])
    assert mse.lines[0].high == pytest.approx([3, 7])
    assert mse.goal == pytest.approx(7)
    assert mse.lines[1].y == []
    (named,) = score_panels({"x": rows}, label="I", names=["ari_recall"])
    assert named.title == "ARI recall"


def test_curves_leave_out_what_is_missing_or_never_moves() -> None:
    metrics = [
        {"step": step, "loss": 5.0 - step, "nll": None, "nll_weight": 3.5, "update_1": 1.0 + step,
         "update_2": 2.0, "validation_ari": 0.1 * step, "kl": 9.0 - step, "strange": 1.0}
        for step in range(6)
    ]  # fmt: skip
    panels = training_panels(Course({"a": metrics}, goals={"ari": 0.4}))
    titles = ["Validation ARI", "Loss", "KL (nats)", "L2 norm of refinement updates"]
    assert [panel.title for panel in panels] == titles
    assert [len(panel.lines) for panel in panels] == [1, 1, 1, 2]
    assert [label for label, _, _ in panels[3].legend] == ["Refinement update 1", "Refinement update 2"]
    assert panels[0].goal == 0.4
    assert series(metrics, "nll") == ([], [])
    assert series(metrics, "loss")[0] == [1, 2, 3, 4, 5, 6]
    chart = training_chart(Course({"a": metrics, "_b$": metrics[:3]}))
    assert chart is not None
    assert sum(axes.get_visible() for axes in chart.axes) == 4
    assert [text.get_text() for text in chart.legends[0].get_texts()] == ["a", r" b\$"]
    assert training_chart(Course({"a": metrics[:1]})) is None
    assert training_chart(Course({})) is None


def test_a_loss_that_falls_from_great_heights_is_shown_where_it_settles() -> None:
    metrics = [{"step": step, "loss": 1e6 if step < 3 else 10.0 - step / 100} for step in range(200)]
    (panel,) = training_panels(Course({"a": metrics}))
    assert panel.limits is not None
    assert panel.limits[1] is not None
    assert panel.limits[1] < 11


def test_long_curves_are_thinned_to_means() -> None:
    metrics = [{"step": step, "loss": float(step % 2)} for step in range(3200)]
    steps, values = series(metrics, "loss")
    assert len(steps) == 160
    assert set(values) == {0.5}


def test_seeds_become_a_mean_and_a_band() -> None:
    points = [(float(step), 2.0) for step in range(100)]
    assert [value for _, value in smoothed(points)] == pytest.approx([2.0] * 100)
    higher = [(step, value + 2) for step, value in points[:50]]
    chart = seed_chart({"one": {"x": [points, higher]}, "two": {"y": [points], "z": [higher]}})
    (line,) = chart.axes[0].lines
    assert line.get_ydata().tolist() == [3.0] * 50  # as far as both go
    assert chart.axes[0].get_legend() is None
    assert len(chart.axes[1].get_legend().get_texts()) == 2


def cost_row(label: str, size: int, **changes: Any) -> dict[str, Any]:
    numbers = {
        f"{kind}_{name}": 1.0 + size
        for kind in ("forward", "training")
        for name in ("ms", "ms_low", "ms_high", "mib")
    }
    preset = label.split(",")[0]
    return {"label": label, "preset": preset, "image_size": size, "batch_size": 1, **numbers, **changes}


def test_costs_have_a_line_per_model_and_budget() -> None:
    rows = [cost_row(label, size) for label in ("a, I=0", "a, I=1", "b") for size in (64, 32)]
    first, second, third = cost_lines(rows, "forward")
    assert [line.label for line in (first, second, third)] == ["a, I=0", "a, I=1", "b"]
    assert first.color == second.color != third.color
    assert first.dash != second.dash
    assert first.x == [33, 65]
    assert first.note == "64"
    chart = cost_chart([*rows, cost_row("b", 32, batch_size=2)])
    assert [len(axes.lines) for axes in chart.axes] == [1, 1]  # the larger batch alone
    assert chart.axes[0].get_title(loc="left") == "test time, batch 2"


def test_systems_stand_side_by_side_and_failures_at_the_edge() -> None:
    chart = comparison({"ours": (0.95, 0.01)}, {"theirs": (0.98, 0.02), "lost": (0.2, 0.1)})
    names = [label.get_text() for label in chart.axes[0].get_yticklabels()]
    assert names == ["ours", "theirs", "lost"]
    assert [text.get_text() for text in chart.axes[0].texts][2] == "0.200 ± 0.100"
    assert chart.axes[0].get_xlim()[0] > 0.5


def test_scores_scene_by_scene() -> None:
    (ari,) = sorted_scores([0.9, 0.1, 0.5], "ari").axes[0].lines
    assert ari.get_ydata().tolist() == [0.1, 0.5, 0.9]
    (mse,) = sorted_scores([1e-4, 3e-4], "mse").axes[0].lines
    assert mse.get_ydata().tolist() == pytest.approx([3, 1])  # the worst is the largest
    axes = scatter({"ari": [0.1, 0.2], "mse": [1e-4, 2e-4]}).axes[0]
    assert axes.get_xlabel() == "ARI"
    assert axes.get_title(loc="left") == "MSE (× 10⁻⁴) against ARI"
    assert axes.lines[0].get_linestyle() == "None"
