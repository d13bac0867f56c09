"""A real browser for the tests of pages: Debian's Chromium, without a window."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

from emorl.explorer.chromium import FLAGS, find_chromium

CHROMIUM = find_chromium()
WAIT = 180_000  # milliseconds: a busy machine is slow
PHONE: dict[str, Any] = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}

in_a_browser = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here: apt-get install chromium")

Visit = Callable[..., Any]


@contextmanager
def started() -> Iterator[Any]:
    """A browser that a script can steer."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        window = driver.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield window
        window.close()


@contextmanager
def visits(browser: Any) -> Iterator[Visit]:
    """Opens pages, each as a visitor of its own; when all is done, nothing went wrong, nothing was asked of others."""
    problems: list[str] = []
    requested: list[str] = []
    with ExitStack() as opened:

        def visit(url: str, **options: Any) -> Any:
            context = browser.new_context(**options)
            opened.callback(context.close)
            page = context.new_page()
            page.set_default_timeout(WAIT)
            page.on("pageerror", lambda error: problems.append(str(error)))
            page.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
            page.on("request", lambda request: requested.append(request.url))
            page.goto(url, wait_until="networkidle")
            return page

        yield visit
    assert problems == []
    assert requested
    assert all(re.match(r"http://127\.0\.0\.1:|file:|data:|blob:|about:", url) for url in requested), (
        requested
    )
