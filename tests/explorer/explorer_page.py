"""The explorer's page in a browser: opening it, waiting for it, and reading what it shows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from browser import WAIT
from emorl.data.base import Array
from explorer_server import wait_until

PLACE = "explorer.places[explorer.chosen]"


def address_of(port: int, model: str, index: int) -> str:
    """The address of a scene."""
    return f"http://127.0.0.1:{port}/?{index}#m={model.replace('/', '%2F')}&i={index}"


def shown(page: Any) -> Any:
    """The page, once it shows a scene."""
    page.set_default_timeout(WAIT)
    until(page, "window.explorer?.frame && explorer.chosen !== null")
    return page


def until(page: Any, condition: str) -> None:
    """Waits for JavaScript to be true. Playwright's own waiting evaluates text, which the page's policy forbids."""
    wait_until(lambda: page.evaluate(f"Boolean({condition})"), WAIT / 1000)


def until_told(page: Any, text: str) -> None:
    """Waits for a message."""
    until(page, f"document.querySelector('#message').textContent.includes({text!r})")


def settled(page: Any, action: Callable[[], Any]) -> None:
    """Does something and waits for the picture that comes of it."""
    page.evaluate("explorer.before = explorer.frame, undefined")
    action()
    until(page, "explorer.frame !== explorer.before && !explorer.isBusy && !explorer.pending")


def pixels(page: Any, name: str = "result") -> Array:
    """A picture (H, W, 3) of the page's, from 0 to 255."""
    size = page.evaluate("explorer.size")
    return np.array(page.evaluate(f"[...explorer.{name}]"), dtype=float).reshape(size, size, -1)


def drawn(page: Any, canvas: str) -> Array:
    """What is painted on a canvas, (H, W, 4)."""
    read = "one => [one.height, ...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"
    height, *values = page.locator(canvas).evaluate(read)
    return np.array(values, dtype=float).reshape(height, -1, 4)


def mask(page: Any, k: int) -> Array:
    """The mask (H, W) of a slot."""
    size = page.evaluate("explorer.size")
    masks: Array = np.array(page.evaluate("[...explorer.masks]"), dtype=float).reshape(-1, size, size)
    return np.asarray(masks[k] / 255)


def on_screen(page: Any, down: float, right: float) -> tuple[float, float]:
    """Where a place of the image is in the window, (x, y)."""
    box = page.locator("#stage").bounding_box()
    return box["x"] + (right + 1) / 2 * box["width"], box["y"] + (down + 1) / 2 * box["height"]


def middle_of(page: Any, element: str) -> tuple[float, float]:
    """The middle of an element in the window, (x, y)."""
    box = page.locator(element).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def moved_alone(before: Array, after: Array, inside: Array) -> bool:
    """Whether pixels inside a mask have changed, and those outside hardly."""
    change = np.abs(after - before).mean(axis=2)
    share = [float((change * where).sum() / where.sum()) for where in (inside, 1 - inside)]
    return share[0] > 10 * share[1]
