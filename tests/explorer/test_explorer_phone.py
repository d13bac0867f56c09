"""The page on a phone: fingers, sizes, and what is in sight; and that its colours can be read, in light and dark."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from browser import PHONE, Visit, in_a_browser
from explorer_page import (
    PLACE,
    address_of,
    mask,
    middle_of,
    moved_alone,
    on_screen,
    pixels,
    settled,
    shown,
    until,
)
from explorer_server import SPRITES, serving

pytestmark = in_a_browser

Point = tuple[float, float]
LEAST_TARGET = 40  # pixels for a finger
LEAST_CONTRAST = 4.5  # of text that is no larger than usual


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (number, _):
        yield number


@pytest.fixture
def phone(visit: Visit, port: int) -> Any:
    return shown(visit(address_of(port, SPRITES, 3), **PHONE, color_scheme="dark"))


class Hand:
    """Fingers on the screen: real touches, as the browser's own protocol makes them."""

    def __init__(self, page: Any) -> None:
        self.page, self.protocol = page, page.context.new_cdp_session(page)

    def touch(self, kind: str, *places: Point) -> None:
        points = [{"x": x, "y": y, "id": n} for n, (x, y) in enumerate(places)]
        self.protocol.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})

    def go(self, *ways: tuple[Point, Point]) -> None:
        """Each finger goes from its first place to its second."""
        self.touch("touchStart", *(start for start, _ in ways))
        for step in range(1, 9):
            self.touch("touchMove", *(between(start, end, step / 8) for start, end in ways))
        self.touch("touchEnd")


def between(start: Point, end: Point, share: float) -> Point:
    return start[0] + share * (end[0] - start[0]), start[1] + share * (end[1] - start[1])


def test_a_finger_drags_an_object_and_elsewhere_scrolls(phone: Any) -> None:
    hand, first, k = Hand(phone), pixels(phone), phone.evaluate("explorer.chosen")
    before, (top, left, *_) = mask(phone, k), phone.evaluate(PLACE)
    down, right = -0.3 * math.copysign(1, top), -0.3 * math.copysign(1, left)
    way = on_screen(phone, top, left), on_screen(phone, top + down, left + right)
    settled(phone, lambda: hand.go(way))
    after = phone.evaluate(PLACE)
    assert after[:2] == pytest.approx([top + down, left + right], abs=0.1)
    assert moved_alone(first, pixels(phone), np.maximum(before, mask(phone, k)))
    assert phone.evaluate("scrollY") == 0
    settled(phone, lambda: phone.click("#undo"))  # one drag, one step
    assert (pixels(phone) == first).all()
    empty = on_screen(phone, 0.9, 0.95)
    hand.go((empty, (empty[0], empty[1] - 150)))
    until(phone, "scrollY > 80")
    assert (pixels(phone) == first).all()


def test_two_fingers_resize_and_turn(phone: Any) -> None:
    hand, (top, left, size, _) = Hand(phone), phone.evaluate(PLACE)

    def fingers(apart: float, angle: float) -> tuple[Point, Point]:
        down, right = apart * math.sin(angle), apart * math.cos(angle)
        return on_screen(phone, top - down, left - right), on_screen(phone, top + down, left + right)

    def pinch(end: tuple[Point, Point]) -> None:
        start = fingers(0.12, 0.3)
        settled(phone, lambda: hand.go((start[0], end[0]), (start[1], end[1])))

    pinch(fingers(0.16, 0.4))
    grown = phone.evaluate(PLACE)
    assert math.log(grown[2] / size) == pytest.approx(math.log(0.16 / 0.12), abs=0.15)
    assert phone.evaluate("explorer.frame.turned") == {}  # a little twist is not meant
    settled(phone, lambda: phone.click("#undo"))
    pinch(fingers(0.12, 0.9))
    assert phone.evaluate("explorer.frame.turned[explorer.chosen]") > 0.25
    assert phone.evaluate(PLACE)[2] == pytest.approx(size, rel=0.15)
    assert phone.evaluate("visualViewport.scale") == 1  # the page itself was not zoomed


def test_a_finger_pulls_handles_beside_their_middle(phone: Any) -> None:
    hand, size = Hand(phone), phone.evaluate(PLACE)[2]
    x, y = middle_of(phone, "#resize")
    start = x + 12, y + 12
    settled(phone, lambda: hand.go((start, (start[0] + 30, start[1] + 30))))
    assert phone.evaluate(PLACE)[2] > 1.15 * size


def test_controls_are_as_large_as_a_finger_and_nothing_is_wider_than_the_screen(phone: Any) -> None:
    phone.locator("#sliders .slider").first.wait_for()
    for button in ("#donor", "#trace"):
        phone.click(button)
    for made in ("#donor-cards .card", "#trace-view canvas"):
        phone.locator(made).first.wait_for()
    assert phone.evaluate("[document.documentElement.scrollWidth, innerWidth]") == [390, 390]
    sizes = phone.evaluate("""[...document.querySelectorAll("button, select, input, .handle, summary")]
      .map(e => [e.id || e.ariaLabel || e.textContent, e.getBoundingClientRect()])
      .filter(([, box]) => box.width > 0).map(([name, box]) => [name, Math.min(box.width, box.height)])""")
    assert len(sizes) > 40
    assert [(name, size) for name, size in sizes if size < LEAST_TARGET] == []


def test_the_scene_stays_in_sight_while_a_slider_is_moved(phone: Any) -> None:
    slider = phone.locator("#sliders input").last
    slider.wait_for()
    slider.scroll_into_view_if_needed()
    stage, moved = phone.locator("#stage").bounding_box(), slider.bounding_box()
    assert stage["y"] >= 0
    assert stage["height"] > 250
    assert stage["y"] + stage["height"] <= moved["y"]
    x, y = moved["x"], moved["y"] + moved["height"] / 2
    before = pixels(phone)
    hand = Hand(phone)
    settled(phone, lambda: hand.go(((x + 20, y), (x + moved["width"] - 10, y))))
    assert (pixels(phone) != before).any()


# Text and the ground it stands on: the nearest one behind it that is not transparent.
COLOURS = """() => {
  const ground = (e) => {
    for (; e; e = e.parentElement) {
      const found = getComputedStyle(e).backgroundColor;
      if (!found.includes(", 0)") && found !== "transparent") return found;
    }
    return "rgb(255, 255, 255)";
  };
  const isText = (e) => [...e.childNodes].some((node) => node.nodeType === 3 && node.textContent.trim());
  const isOther = (e) => e.closest(":disabled, #frame, svg, .unseen, script, style");
  return [...document.querySelectorAll("body *")]
    .filter((e) => isText(e) && e.getClientRects().length && !isOther(e))
    .map((e) => [e.textContent.trim().slice(0, 30), getComputedStyle(e).color, ground(e)]);
}"""


def light_of(colour: str) -> float:
    """Relative luminance, from 0 to 1."""
    values = [int(value) / 255 for value in re.findall(r"\d+", colour)[:3]]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in values]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_text_can_be_read(visit: Visit, port: int, scheme: str) -> None:
    page = shown(visit(address_of(port, SPRITES, 3), color_scheme=scheme))
    page.locator("#sliders .slider").first.wait_for()
    page.click(".keys summary")
    page.evaluate("document.querySelector('#message').hidden = false, undefined")
    page.evaluate("document.querySelector('#message').textContent = 'A message', undefined")
    found = page.evaluate(COLOURS)
    assert len(found) > 50
    ground = light_of(page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert ground > 0.8 if scheme == "light" else ground < 0.05
    for text, colour, behind in found:
        bright, dim = sorted((light_of(colour), light_of(behind)), reverse=True)
        assert (bright + 0.05) / (dim + 0.05) >= LEAST_CONTRAST, (text, colour, behind)
