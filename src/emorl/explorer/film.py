"""The picture of the explorer in the README: a drag in a real browser, filmed.

`python -m emorl.explorer.film docs/images/explorer.gif` starts the explorer, opens its page in Chromium without a
window, drags an object, turns it, and writes what was seen.
"""

from __future__ import annotations

import io
import math
import re
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from PIL import Image

from emorl.errors import UserError
from emorl.experiments.drawn import marked, source_of_weights
from emorl.explorer.chromium import FLAGS, find_chromium
from emorl.files import MARK, check_output, write_bytes
from emorl.plots.files import in_a_row

WINDOW = {"width": 1180, "height": 740}
MARGIN = 12  # around the part of the page that is filmed
WIDTH = 640  # of the film
FRAME = 90  # milliseconds
MODEL, SCENE = "efficient-morl/clevr6", 2
COLOURS = 120  # in each half of the palette
# Where the pointer is cannot be seen in a picture of a page: an arrow that follows it is put on.
POINTER = """() => {
  const arrow = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  arrow.id = "pointer";
  arrow.setAttribute("viewBox", "0 0 16 24");
  const shape = document.createElementNS("http://www.w3.org/2000/svg", "path");
  shape.setAttribute("d", "M1 1v18l4.4-4 3 7 3.2-1.4-3-6.8 6-.4z");
  shape.setAttribute("fill", "#000"); shape.setAttribute("stroke", "#fff"); shape.setAttribute("stroke-width", "1.4");
  arrow.append(shape);
  Object.assign(arrow.style, { position: "fixed", width: "22px", height: "33px", zIndex: 99, pointerEvents: "none" });
  document.body.append(arrow);
  document.addEventListener("pointermove", (event) => {
    arrow.style.left = `${event.clientX - 1}px`; arrow.style.top = `${event.clientY - 1}px`;
  }, true);
}"""


class Camera:
    """A page, the pointer on it, and the pictures that were taken."""

    def __init__(self, page: Any) -> None:
        self.page = page
        self.frames: list[Image.Image] = []
        stage, views = (page.locator(name).bounding_box() for name in (".stage-area", ".views"))
        self.clip = {
            "x": stage["x"] - MARGIN,
            "y": stage["y"] - MARGIN,
            "width": views["x"] + views["width"] - stage["x"] + 2 * MARGIN,
            "height": max(stage["height"], views["height"]) + 2 * MARGIN,
        }
        self.at = (stage["x"] + 0.5 * stage["width"], stage["y"] + stage["height"] - 8)
        page.mouse.move(*self.at)

    def take(self, count: int = 1) -> None:
        """Adds what is seen now, `count` times."""
        picture = Image.open(io.BytesIO(self.page.screenshot(clip=self.clip))).convert("RGB")
        height = round(picture.height * WIDTH / picture.width)
        self.frames += [picture.resize((WIDTH, height), Image.Resampling.LANCZOS)] * count

    def wait(self) -> None:
        """Until the page has an answer to everything that it asked."""
        deadline = time.monotonic() + 60
        while self.page.evaluate("explorer.isBusy || Boolean(explorer.pending)"):
            if time.monotonic() > deadline:
                raise UserError("The explorer gave no answer for a minute.")
            time.sleep(0.02)

    def go(self, goal: tuple[float, float], steps: int) -> None:
        """Moves the pointer there, and takes a picture at each step."""
        self.along(
            lambda share: tuple(a + share * (b - a) for a, b in zip(self.at, goal, strict=True)), steps
        )

    def along(self, way: Callable[[float], tuple[float, float]], steps: int) -> None:
        """Moves the pointer along `way`, from 0 to 1, slowly at both ends."""
        places = [way(0.5 - 0.5 * math.cos(math.pi * n / steps)) for n in range(1, steps + 1)]
        for place in places:
            self.page.mouse.move(*place)
            self.wait()
            self.take()
        self.at = places[-1]


def film(page: Any) -> list[Image.Image]:
    """An object is dragged to another place and made larger."""
    camera = Camera(page)
    camera.take(6)
    box = page.locator("#stage").bounding_box()
    down, right = page.evaluate("explorer.places[explorer.chosen].slice(0, 2)")
    x, y = box["x"] + (right + 1) / 2 * box["width"], box["y"] + (down + 1) / 2 * box["height"]
    camera.go((x, y), 7)
    page.mouse.down()
    far, deep = (-0.36 if right > 0 else 0.36) * box["width"], (-0.24 if down > 0 else 0.24) * box["height"]
    bow = 0.07 * box["height"]
    camera.along(lambda share: (x + far * share, y + deep * share + bow * math.sin(math.pi * share)), 20)
    page.mouse.up()
    camera.take(4)
    handle = page.locator("#resize").bounding_box()
    corner = handle["x"] + handle["width"] / 2, handle["y"] + handle["height"] / 2
    camera.go(corner, 4)
    page.mouse.down()
    camera.go((corner[0] + 22, corner[1] + 22), 6)
    page.mouse.up()
    camera.take(4)
    camera.go((box["x"] + box["width"] / 2, box["y"] + box["height"] + 60), 5)
    camera.take(3)
    page.keyboard.press("Control+z")
    camera.wait()
    camera.take(4)
    page.keyboard.press("Control+z")
    camera.wait()
    camera.take(8)
    return camera.frames


@contextmanager
def opened() -> Iterator[Any]:
    """The explorer's page in a browser."""
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise UserError("A film needs playwright, which is not installed: pip install playwright") from None
    browser = find_chromium()
    if browser is None:
        raise UserError("A film needs Chromium, which is not here: apt-get install chromium")
    command = [sys.executable, "-m", "emorl", "explore", "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server, sync_playwright() as driver:
        try:
            assert server.stderr is not None
            found = re.search(r"http://\S+/", server.stderr.readline())
            if found is None:
                raise UserError("The explorer did not start.")
            window = driver.chromium.launch(executable_path=browser, args=FLAGS)
            page = window.new_page(viewport=WINDOW, color_scheme="light")  # type: ignore[arg-type]
            page.goto(f"{found[0]}#m={MODEL.replace('/', '%2F')}&i={SCENE}")
            page.wait_for_selector("#sliders .slider", timeout=300_000)
            page.evaluate(POINTER)
            yield page
            window.close()
        finally:
            server.terminate()


def as_small_gif(frames: list[Image.Image]) -> bytes:
    """An animation with one palette, in which only what changes is stored."""
    several = in_a_row(frames[:: max(1, len(frames) // 5)])
    # The first half has the colours that are everywhere, such as greys of the scene, the second those of small things.
    ways = Image.Quantize.MEDIANCUT, Image.Quantize.MAXCOVERAGE
    colours = [several.quantize(COLOURS, way).getpalette() or [] for way in ways]
    palette = Image.new("P", (1, 1))
    palette.putpalette([value for half in colours for value in half[: 3 * COLOURS]])
    drawn = [frame.quantize(palette=palette, dither=Image.Dither.NONE) for frame in frames]
    buffer = io.BytesIO()
    options: Any = {"duration": FRAME, "loop": 0, "optimize": False, "comment": MARK.encode()}
    drawn[0].save(buffer, "GIF", save_all=True, append_images=drawn[1:], **options)
    return buffer.getvalue()


def main(path: Path) -> None:
    """Writes the film."""
    check_output(path)
    with opened() as page:
        write_bytes(path, marked(as_small_gif(film(page)), source_of_weights([MODEL])))


if __name__ == "__main__":
    try:
        main(Path(*sys.argv[1:2] or ["docs/images/explorer.gif"]))
    except UserError as error:
        sys.exit(str(error))
