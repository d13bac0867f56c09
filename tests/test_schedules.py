"""Schedules: what is written is read back, every shape, percentages, and what makes no sense."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from emorl.errors import UserError
from emorl.schedules import SHAPES, Point, Schedule


def values(text: str | float, steps: list[int], length: int = 100) -> list[float]:
    schedule = Schedule.parse(text)
    return [schedule.at(step, length) for step in steps]


@pytest.mark.parametrize(
    ("text", "written"),
    [
        (1, "1"),
        (0.1, "0.1"),
        ("1e-4", "0.0001"),
        ("  3   50%:1 ", "3 50%:1"),
        ("0 linear 200:0.001 cosine 100%:0", "0 linear 200:0.001 cosine 100%:0"),
        ("0.007 800:0.007 geometric 6000:1", "0.007 800:0.007 geometric 6000:1"),
        ("1 jump 7%:2", "1 7%:2"),
        ("0.1234567890123456 1000000000001:-3.0", "0.1234567890123456 1000000000001:-3"),
    ],
)
def test_text_is_written_in_one_way(text: str | float, written: str) -> None:
    schedule = Schedule.parse(text)
    assert str(schedule) == written
    assert Schedule.parse(written) == schedule


numbers = st.floats(-1e9, 1e9, allow_subnormal=False).filter(lambda value: value == 0 or abs(value) > 1e-12)
percentages = st.floats(0, 100, allow_subnormal=False)
steps = st.one_of(st.integers(0, 10**9).map(float), st.floats(0, 1e12, allow_subnormal=False))


@st.composite
def schedules(draw: st.DrawFn) -> Schedule:
    """Any schedule that makes sense: steps in order, then percentages in order."""
    whens = [(when, False) for when in sorted(draw(st.sets(steps, max_size=3)))]
    whens += [(when, True) for when in sorted(draw(st.sets(percentages, max_size=3)))]
    points = [Point(0, False, draw(numbers))]
    for when, is_share in whens:
        value = draw(numbers)
        shapes = SHAPES if points[-1].value > 0 and value > 0 else [s for s in SHAPES if s != "geometric"]
        points.append(Point(when, is_share, value, draw(st.sampled_from(shapes))))
    return Schedule(tuple(points))


@given(schedules())
def test_any_schedule_survives_its_text(schedule: Schedule) -> None:
    assert Schedule.parse(str(schedule)) == schedule


@given(schedules(), st.integers(0, 10**6), st.integers(1, 10**6))
def test_values_lie_between_those_of_the_points(schedule: Schedule, step: int, length: int) -> None:
    found = schedule.at(step, length)
    all_values = [point.value for point in schedule.points]
    room = 1e-9 * max(map(abs, all_values))
    assert schedule.smallest - room <= found <= max(all_values) + room
    if step >= max(point.step(length) for point in schedule.points) and schedule == in_order(
        schedule, length
    ):
        assert found == schedule.final


def in_order(schedule: Schedule, length: int) -> Schedule:
    return Schedule(tuple(sorted(schedule.points, key=lambda point: point.step(length))))


def test_a_constant() -> None:
    assert values(2.5, [0, 1, 10**9]) == [2.5] * 3


def test_a_jump_holds_from_its_step_on() -> None:
    assert values("3 10:1", [0, 9, 10, 11]) == [3, 3, 1, 1]


def test_linear() -> None:
    assert values("0 linear 4:2", [0, 1, 2, 3, 4, 5]) == [0, 0.5, 1, 1.5, 2, 2]


def test_geometric() -> None:
    assert values("0.01 2:0.01 geometric 6:1", [0, 1, 2, 3, 4, 5, 6, 7]) == pytest.approx(
        [0.01, 0.01, 0.01, 0.01 * 10**0.5, 0.1, 10**-0.5, 1, 1], rel=1e-12
    )


def test_cosine() -> None:
    half = (1 + math.cos(math.pi / 4)) / 2
    expected = [1, half, 0.5, 1 - half, 0]
    assert values("1 cosine 8:0", [0, 2, 4, 6, 8]) == pytest.approx(expected, abs=1e-15)


def test_percentages_follow_the_length() -> None:
    assert values("3 20%:1", [19, 20], length=100) == [3, 1]
    assert values("3 20%:1", [19, 20, 199, 200], length=1000) == [3, 3, 3, 1]
    warm_up = "0 linear 200:0.001 cosine 100%:0"
    assert values(warm_up, [0, 100, 200, 600, 1000], length=1000) == pytest.approx([0, 5e-4, 1e-3, 5e-4, 0])


def test_a_training_too_short_for_its_points_keeps_going_up() -> None:
    """The end is at step 50, before the point at 200 that comes first."""
    assert values("0 linear 200:1 cosine 100%:0", [0, 25, 50], length=50) == [0, 0.125, 0.25]


def test_what_it_says_of_itself() -> None:
    schedule = Schedule.parse("1 linear 10:5 50%:0.5")
    assert (schedule.final, schedule.smallest, schedule.depends_on_length) == (0.5, 0.5, True)
    assert not Schedule.parse("1 10:5").depends_on_length


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is not a schedule"),
        ("fast", "is not a schedule"),
        ("nan", "is not a schedule"),
        ("1 10", "is not a schedule"),
        ("1 10:inf", "is not a schedule"),
        ("1 10:2:3", "is not a schedule"),
        ("1 quadratic 10:2", "one of jump, linear, geometric, cosine"),
        ("1 linear", "is not a schedule"),
        ("1 linear cosine 10:2", "is not a schedule"),
        ("linear 10:2", "is not a schedule"),
        ("1 -5:2", "at step 0 or later"),
        ("1 101%:2", "at 100% or earlier"),
        ("1 10:2 10:3", "in the order of their steps"),
        ("1 10:2 0:3", "in the order of their steps"),
        ("1 20%:2 10%:3", "in the order of their steps"),
        ("1 20%:2 500:2 10%:3", "in the order of their steps"),
        ("0 geometric 10:1", "above 0 at both ends"),
        ("1 geometric 10:-1", "above 0 at both ends"),
    ],
)
def test_mistakes_are_told_in_one_line(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as error:
        Schedule.parse(text)
    assert repr(text) in str(error.value)
    assert "\n" not in str(error.value)
