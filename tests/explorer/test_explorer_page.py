"""The page in a real browser: Debian's Chromium, without a window."""

from __future__ import annotations

import io
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from emorl.data.base import Array
from explorer_server import BLOCKS, SPRITES, serving, wait_until

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

ARGUMENTS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
]  # fmt: skip
WAIT = 60_000  # milliseconds: a busy machine is slow


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving(BLOCKS) as (number, _):
        yield number


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def page(browser: Any, port: int) -> Iterator[Any]:
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    opened = context.new_page()
    problems: list[str] = []
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("console", lambda message: problems.append(message.text) if message.type == "error" else None)
    opened.on("request", lambda request: requested.append(request.url))
    requested: list[str] = []
    visit(opened, port, SPRITES, 3)
    yield opened
    context.close()
    assert problems == []
    assert all(url.startswith((f"http://127.0.0.1:{port}/", "blob:", "data:")) for url in requested)


def visit(page: Any, port: int, model: str, index: int) -> None:
    page.set_default_timeout(WAIT)
    page.goto(f"http://127.0.0.1:{port}/?{index}#m={model.replace('/', '%2F')}&i={index}")
    until(page, f"window.explorer?.frame && explorer.scene.index === {index}")


def until(page: Any, condition: str) -> None:
    """Waits for JavaScript to be true. Playwright's own waiting evaluates text, which the page's policy forbids."""
    wait_until(lambda: page.evaluate(f"Boolean({condition})"), WAIT / 1000)


def pixels(page: Any, name: str = "result") -> Array:
    size = page.evaluate("explorer.size")
    return np.array(page.evaluate(f"[...explorer.{name}]"), dtype=float).reshape(size, size, -1)


def mask(page: Any, k: int) -> Array:
    size = page.evaluate("explorer.size")
    masks: Array = np.array(page.evaluate("[...explorer.masks]"), dtype=float).reshape(-1, size, size)
    return np.asarray(masks[k] / 255)


def settled(page: Any, action: Any) -> None:
    """Does something and waits for the picture that comes of it."""
    page.evaluate("explorer.before = explorer.frame, undefined")
    action()
    until(page, "explorer.frame !== explorer.before && !explorer.isBusy && !explorer.pending")


def drag(page: Any, down: float, right: float) -> int:
    """Drags the chosen object, by image units. Returns its slot."""
    k: int = page.evaluate("explorer.chosen")
    top, left = page.evaluate("explorer.places[explorer.chosen].slice(0, 2)")
    box = page.locator("#stage").bounding_box()

    def at(value: float, start: float, length: float) -> float:
        return start + (value + 1) / 2 * length

    def go(share: float) -> None:
        x, y = left + share * right, top + share * down
        page.mouse.move(at(x, box["x"], box["width"]), at(y, box["y"], box["height"]))

    go(0)
    page.mouse.down()
    for step in range(1, 6):
        go(step / 5)
    settled(page, lambda: go(1.001))
    page.mouse.up()
    return k


def test_a_dragged_object_moves_alone_and_comes_back(page: Any) -> None:
    first, k = pixels(page), page.evaluate("explorer.chosen")
    before, place = mask(page, k), page.evaluate("explorer.places[explorer.chosen]")
    down, right = (-0.2 if value > 0 else 0.2 for value in place[:2])
    assert drag(page, down, right) == k
    after = page.evaluate("explorer.places[explorer.chosen]")
    assert abs(after[0] - place[0] - down) < 0.1
    assert abs(after[1] - place[1] - right) < 0.1
    inside = np.maximum(before, mask(page, k))
    change = np.abs(pixels(page) - first).mean(axis=2)
    assert (change * inside).sum() / inside.sum() > 10 * (change * (1 - inside)).sum() / (1 - inside).sum()
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
    box = page.locator(handle).bounding_box()
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + right / 2, y + down / 2)
    settled(page, lambda: page.mouse.move(x + right, y + down))
    page.mouse.up()


def test_handles_and_wheel_resize_and_turn_and_sliders_follow(page: Any) -> None:
    page.locator("#sliders input").first.wait_for()
    place = "explorer.places[explorer.chosen]"
    down, right, size, can_turn = page.evaluate(place)
    assert can_turn
    pull(page, "#resize", 30, 30)
    grown = page.evaluate(place)
    assert grown[2] > 1.15 * size
    assert abs(grown[0] - down) + abs(grown[1] - right) < 0.1  # it stays where it is
    values = "[...document.querySelectorAll('#sliders input')].map(one => [+one.dataset.dim, +one.value])"
    for dim, value in page.evaluate(values):
        assert abs(value - page.evaluate(f"explorer.frame.edited[explorer.chosen][{dim}]")) < 0.1
    before = pixels(page)
    pull(page, "#turn", 60, 50)
    assert page.evaluate(place)  # it is still there
    assert np.abs(pixels(page) - before).max() > 60
    box = page.locator("#stage").bounding_box()
    top, left, smaller, _ = page.evaluate(place)
    page.mouse.move(box["x"] + (left + 1) / 2 * box["width"], box["y"] + (top + 1) / 2 * box["height"])
    settled(page, lambda: page.mouse.wheel(0, 300))
    assert page.evaluate(place)[2] < smaller
    first = page.locator("#sliders button[aria-pressed]").first
    first.click()
    until(page, "explorer.played !== null")
    first.click()
    until(page, "explorer.played === null")


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


def test_remove_keys_sliders_copy_and_steps(page: Any) -> None:
    first, k = pixels(page), page.evaluate("explorer.chosen")
    page.focus("#stage")
    settled(page, lambda: page.keyboard.press("Delete"))
    assert mask(page, k).max() == 0
    settled(page, lambda: page.click("#reset"))
    settled(page, lambda: page.locator("#stage").press("ArrowRight"))
    assert (pixels(page) != first).any()
    slider = page.locator("#sliders input").first
    slider.wait_for()
    slider.focus()
    settled(page, lambda: slider.press("End"))
    page.click("#donor")
    page.wait_for_selector("#donor-cards .card")
    settled(page, lambda: page.locator("#donor-cards .card:not(.empty)").first.click())
    page.click("#trace")
    page.wait_for_selector("#trace-view canvas")
    assert "layer 1" in page.inner_text("#step-name")
    page.locator("#step").press("End")
    assert "refinement" in page.inner_text("#step-name")
    with page.expect_download() as saved:
        page.click("#save-json")
    assert Path(saved.value.path()).read_text().count('"slot"') == page.evaluate("explorer.count")
    page.click("#again")
    until(page, "explorer.scene.seed === 1")
    assert page.locator("#tries li").count() == 2


def test_pictures_of_ones_own_and_hostile_files(page: Any) -> None:
    buffer = io.BytesIO()
    Image.effect_noise((90, 70), 80).convert("RGB").save(buffer, "PNG")

    def give(name: str, content: bytes) -> None:
        page.set_input_files("#file", {"name": name, "mimeType": "image/png", "buffer": content})

    give("good.png", buffer.getvalue())
    until(page, "explorer.scene.upload")
    bomb = io.BytesIO()
    Image.new("1", (9000, 9000)).save(bomb, "PNG")
    for content, told in ((bomb.getvalue(), "9000 x 9000"), (b"<script>alert(1)</script>", "cannot be read")):
        give("bad.png", content)
        until(page, f"document.querySelector('#message').textContent.includes({told!r})")
    assert page.evaluate("explorer.scene.upload")


def test_two_tabs_do_not_meddle_and_a_phone_needs_no_sideways_scrolling(
    browser: Any, page: Any, port: int
) -> None:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True, color_scheme="dark")
    phone = context.new_page()
    visit(phone, port, BLOCKS, 1)
    first = pixels(page)
    assert phone.evaluate("document.documentElement.scrollWidth") <= 390
    phone.focus("#stage")
    settled(phone, lambda: phone.keyboard.press("ArrowDown"))
    assert (pixels(page) == first).all()
    controls = "[...document.querySelectorAll('button, input, select')]"
    named = "e.ariaLabel || e.textContent.trim() || e.labels?.length"
    assert phone.evaluate(f"{controls}.filter(e => !({named})).length") == 0
    context.close()


def test_the_page_goes_on_when_the_server_comes_back(browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    with serving(BLOCKS) as (port, _):
        visit(page, port, BLOCKS, 2)
        page.focus("#stage")
        settled(page, lambda: page.keyboard.press("Shift+ArrowLeft"))
        edited = pixels(page)
    until(page, "document.querySelector('#message').textContent.includes('server is gone')")
    with serving(BLOCKS, port=port):
        until(page, "document.querySelector('#message').hidden && explorer.frame.can_undo")
        assert page.evaluate("explorer.scene.index") == 2
        assert np.abs(pixels(page) - edited).max() <= 2
        context.close()
