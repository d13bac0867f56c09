"""Heat maps, and charts as a page shows them."""

from __future__ import annotations

import re

import pytest

from emorl.plots.maps import activeness_map, importance_matrix
from emorl.plots.style import blank, literal, svg_of


def test_maps_have_a_cell_for_each_dimension_and_leave_out_what_says_nothing() -> None:
    chart = activeness_map([0.1] * 10, [3])
    assert [text.get_text() for text in chart.axes[0].texts] == [f"z{d}" for d in range(10)]
    frames = [patch for patch in chart.axes[0].patches if not patch.get_fill()]
    assert len(frames) == 1
    assert frames[0].get_x() == pytest.approx(3.04)
    matrix = importance_matrix([[0.9, 0.0], [0.0, 0.0], [0.1, 0.7]], ["x", "is_red"])
    assert [label.get_text() for label in matrix.axes[0].get_yticklabels()] == ["z0", "z2"]
    assert [label.get_text() for label in matrix.axes[0].get_xticklabels()] == ["x", "is red"]
    assert {text.get_text() for text in matrix.axes[0].texts} == {"90%", "10%", "100%", ""}


def test_a_chart_takes_the_page_s_colour_and_nothing_from_outside() -> None:
    chart = blank(2, 2)
    chart.subplots().set_title(literal("_<b>&$x 0.98765"))
    svg = svg_of(chart)
    assert svg.startswith("<svg")
    assert "&lt;b&gt;&amp;$x 0.98765" in svg  # a name is neither markup nor a formula, and keeps its digits
    assert "font-family" not in svg
    assert "metadata" not in svg
    assert re.findall(r'href="([^#][^"]*)"', svg) == []
