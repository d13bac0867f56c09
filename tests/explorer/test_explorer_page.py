"""The page in a real browser, with mouse and keys."""

from __future__ import annotations

import base64
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from browser import Visit, in_a_browser
from explorer_page import (
    PLACE,
    address_of,
    drawn,
    mask,
    middle_of,
    moved_alone,
    on_screen,
    pixels,
    settled,
    shown,
    until,
    until_told,
)
from explorer_server import CLEVR, SPRITES, serving, wait_until

pytestmark = in_a_browser


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (number, _):
        yield number


@pytest.fixture
def page(visit: Visit, port: int) -> Any:
    return shown(visit(address_of(port, SPRITES, 3), viewport={"width": 1280, "height": 900}))


def drag(page: Any, down: float, right: float) -> int:
    """Drags the chosen object, by image units. Returns its slot."""
    k: int = page.evaluate("explorer.chosen")
    top, left = page.evaluate(PLACE)[:2]

    def go(share: float) -> None:
        page.mouse.move(*on_screen(page, top + share * down, left + share * right))

    go(0)
    page.mouse.down()
    for step in range(1, 6):
        go(step / 5)
    settled(page, lambda: go(1.001))
    page.mouse.up()
    return k


def test_a_dragged_object_moves_alone_and_comes_back(page: Any) -> None:
    first, k = pixels(page), page.evaluate("explorer.chosen")
    before, place = mask(page, k), page.evaluate(PLACE)
    down, right = (-0.2 if value > 0 else 0.2 for value in place[:2])
    assert drag(page, down, right) == k
    after = page.evaluate(PLACE)
    assert abs(after[0] - place[0] - down) < 0.1
    assert abs(after[1] - place[1] - right) < 0.1
    assert moved_alone(first, pixels(page), np.maximum(before, mask(page, k)))
    settled(page, lambda: page.keyboard.press("Control+z"))
    assert (pixels(page) == first).all()
    settled(page, lambda: page.click("#redo"))
    until(page, "location.hash.includes('e=')")
    edited, address = pixels(page), page.url
    page.goto("about:blank")
    page.goto(address)
    until(page, "window.explorer?.frame?.can_undo")
    assert np.abs(pixels(page) - edited).max() <= 2


def pull(page: Any, handle: str, right: float, down: float) -> None:
    """Pulls a handle of the chosen object by pixels of the screen."""
    x, y = middle_of(page, handle)
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right / 2, y + down / 2)
    settled(page, lambda: page.mouse.move(x + right, y + down))
    page.mouse.up()


def test_handles_and_wheel_resize_and_turn_and_sliders_follow(page: Any) -> None:
    page.locator("#sliders input").first.wait_for()
    down, right, size, can_turn = page.evaluate(PLACE)
    assert can_turn
    pull(page, "#resize", 30, 30)
    grown = page.evaluate(PLACE)
    assert grown[2] > 1.15 * size
    assert abs(grown[0] - down) + abs(grown[1] - right) < 0.1  # it stays where it is
    values = "[...document.querySelectorAll('#sliders input')].map(one => [+one.dataset.dim, +one.value])"
    for dim, value in page.evaluate(values):
        assert abs(value - page.evaluate(f"explorer.frame.edited[explorer.chosen][{dim}]")) < 0.1
    before = pixels(page)
    pull(page, "#turn", 60, 50)
    assert page.evaluate(PLACE)  # it is still there
    assert np.abs(pixels(page) - before).max() > 60
    top, left, smaller, _ = page.evaluate(PLACE)
    page.mouse.move(*on_screen(page, top, left))
    settled(page, lambda: page.mouse.wheel(0, 300))
    assert page.evaluate(PLACE)[2] < smaller
    first = page.locator("#sliders button[aria-pressed]").first
    first.click()
    until(page, "explorer.played !== null")
    first.click()
    until(page, "explorer.played === null")


def test_an_object_that_cannot_be_turned_further_is_held_and_the_page_says_so(
    visit: Visit, port: int
) -> None:
    page = shown(visit(address_of(port, CLEVR, 2)))
    hint = page.inner_text("#hint")
    assert hint.startswith("Drag an object")
    for _ in range(16):
        settled(page, lambda: page.locator("#stage").press("]"))
    assert page.evaluate("explorer.frame.is_held")
    assert 0 < page.evaluate("explorer.frame.turned[explorer.chosen]") < 1.5
    assert "seen no object like this turned further" in page.inner_text("#hint")
    settled(page, lambda: page.keyboard.press("Control+z"))
    assert page.inner_text("#hint") == hint


KEYS = {
    "ArrowLeft": (1, -1), "ArrowRight": (1, 1), "ArrowUp": (0, -1), "ArrowDown": (0, 1), "Shift+ArrowUp": (0, -1),
    "+": (2, 1), "=": (2, 1), "-": (2, -1),
}  # fmt: skip


def test_every_key_does_what_the_page_says(page: Any) -> None:
    stage = page.locator("#stage")
    for key, (axis, sign) in KEYS.items():
        before = page.evaluate(PLACE)
        settled(page, lambda key=key: stage.press(key))  # type: ignore[misc]
        after = page.evaluate(PLACE)
        assert sign * (after[axis] - before[axis]) > 0.005, key
        settled(page, lambda: page.click("#reset"))
    turned = []
    for key in ("[", "]"):
        settled(page, lambda key=key: stage.press(key))  # type: ignore[misc]
        turned.append(page.evaluate("explorer.frame.turned[explorer.chosen]"))
        settled(page, lambda: page.keyboard.press("Control+z"))
    assert turned == pytest.approx([-0.1, 0.1])
    settled(page, lambda: page.keyboard.press("Control+Shift+z"))
    assert page.evaluate("explorer.frame.can_undo")
    for k in (2, 5):
        stage.press(str(k))
        assert page.evaluate("explorer.chosen") == k - 1
    for key in ("Delete", "Backspace"):
        settled(page, lambda key=key: stage.press(key))  # type: ignore[misc]
        assert page.evaluate("explorer.frame.removed") == [4], key
        settled(page, lambda: page.click("#undo"))
    for key, index in (("n", 4), ("p", 3)):
        page.keyboard.press(key)
        until(page, f"explorer.scene.index === {index}")
    page.evaluate("Math.random = () => 0.5, undefined")
    page.keyboard.press("r")
    until(page, "explorer.scene.index === Math.floor(explorer.scene.count / 2)")


def test_pointing_lights_a_slot_up_and_a_click_chooses_it(page: Any) -> None:
    page.mouse.move(2, 2)
    whole, k = drawn(page, "#stage"), page.evaluate("explorer.chosen")
    top, left = page.evaluate(PLACE)[:2]
    box = page.locator("#segmentation").bounding_box()
    at = box["x"] + (left + 1) / 2 * box["width"], box["y"] + (top + 1) / 2 * box["height"]
    page.mouse.move(*at)
    lit, own = drawn(page, "#stage"), mask(page, k) > 0.9
    assert (lit[own] == whole[own]).all()
    assert lit[mask(page, k) < 0.1].sum() < 0.8 * whole[mask(page, k) < 0.1].sum()
    other = next(n for n in range(page.evaluate("explorer.count")) if n != k)
    page.locator("#cards .card").nth(other).click()
    assert page.evaluate("explorer.chosen") == other
    page.mouse.click(*at)
    assert page.evaluate("explorer.chosen") == k
    page.mouse.click(*on_screen(page, -0.97, -0.97))  # background
    assert page.evaluate("explorer.chosen") not in (k, None)


def test_two_models_side_by_side_show_one_scene(page: Any) -> None:
    page.click("#compare")
    second = page.frame_locator("#second")
    second.locator("#cards .card").first.wait_for()
    boxes = [one.bounding_box() for one in (page.locator("#stage"), second.locator("#stage"))]
    assert boxes[0]["x"] + boxes[0]["width"] <= boxes[1]["x"]

    def theirs(expression: str) -> Any:
        return page.frames[1].evaluate(expression)

    assert theirs("explorer.scene.model") != page.evaluate("explorer.scene.model")
    assert theirs("explorer.scene.data") == page.evaluate("explorer.scene.data")
    page.click("#next")
    wait_until(lambda: theirs("explorer.scene.index") == 4 == page.evaluate("explorer.scene.index"))
    page.click("#compare")
    assert not page.locator("#second").is_visible()


def test_remove_sliders_copy_swap_and_steps(page: Any) -> None:
    k = page.evaluate("explorer.chosen")
    settled(page, lambda: page.click("#remove"))
    assert mask(page, k).max() == 0
    settled(page, lambda: page.click("#remove"))  # which brings it back
    slider = page.locator("#sliders input").first
    slider.wait_for()
    slider.focus()
    settled(page, lambda: slider.press("End"))
    settled(page, lambda: page.click("#reset"))
    other = int(page.locator("#swap option").nth(1).get_attribute("value"))
    places = page.evaluate("explorer.places")
    settled(page, lambda: page.select_option("#swap", str(other)))
    for one, two in ((k, other), (other, k)):
        assert page.evaluate(f"explorer.places[{one}]")[:2] == pytest.approx(places[two][:2], abs=0.15)
    page.click("#donor")
    page.wait_for_selector("#donor-cards .card")
    settled(page, lambda: page.locator("#donor-cards .card:not(.empty)").first.click())
    page.click("#trace")
    page.wait_for_selector("#trace-view canvas")
    assert "layer 1" in page.inner_text("#step-name")
    page.locator("#step").press("End")
    assert "refinement" in page.inner_text("#step-name")
    page.click("#again")
    until(page, "explorer.scene.seed === 1")
    page.fill("#slots", "3")
    page.press("#slots", "Enter")
    until(page, "explorer.scene.slots === 3")
    assert page.locator("#cards .card").count() == 3
    page.fill("#steps", "0")
    page.press("#steps", "Enter")
    until(page, "explorer.scene.steps === 0")
    assert page.locator("#tries li").count() == 4


def test_what_is_shown_can_be_saved(page: Any) -> None:
    def saved(button: str) -> Path:
        with page.expect_download() as download:
            page.locator(button).first.click()
        return Path(download.value.path())

    assert saved("#save-json").read_text().count('"slot"') == page.evaluate("explorer.count")
    with Image.open(saved("#save-png")) as sheet:
        assert sheet.format == "PNG"
        assert sheet.width > 4 * sheet.height  # four pictures in a row
    page.locator("#sliders .slider").first.wait_for()
    with Image.open(saved("#sliders button[title*=GIF]")) as film:
        assert film.format == "GIF"
        assert getattr(film, "n_frames", 1) > 10


GIVE = """([name, content]) => {
  const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
  const given = new DataTransfer();
  given.items.add(new File([bytes], "picture.png", { type: "image/png" }));
  const fields = name === "paste" ? { clipboardData: given } : { dataTransfer: given };
  const kind = name === "paste" ? ClipboardEvent : DragEvent;
  document.dispatchEvent(new kind(name, { ...fields, bubbles: true, cancelable: true }));
}"""


def test_pictures_of_ones_own_and_hostile_files(page: Any) -> None:
    def png(picture: Image.Image) -> bytes:
        buffer = io.BytesIO()
        picture.save(buffer, "PNG")
        return buffer.getvalue()

    def give(content: bytes) -> None:
        page.set_input_files("#file", {"name": "a.png", "mimeType": "image/png", "buffer": content})

    give(png(Image.effect_noise((90, 70), 80).convert("RGB")))
    until(page, "explorer.scene.upload")
    for content, told in (
        (png(Image.new("1", (9000, 9000))), "9000 x 9000"),
        (b"<script>alert(1)</script>", "cannot be read"),
        (bytes(9 * 2**20), "8 MB are the limit"),
    ):
        give(content)
        until_told(page, told)
    assert page.evaluate("explorer.scene.upload")
    for name, colour in (("paste", (200, 20, 20)), ("drop", (20, 20, 200))):
        page.evaluate(GIVE, [name, base64.b64encode(png(Image.new("RGB", (64, 64), colour))).decode()])
        until(page, f"explorer.picture[0] === {colour[0]}")
