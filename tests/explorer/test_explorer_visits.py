"""Pages and their server: several at once, a server that is busy, full, gone, and back."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest

from browser import Visit, in_a_browser
from emorl.explorer.server import MOST_SOCKETS
from explorer_page import address_of, pixels, settled, shown, until, until_told
from explorer_server import BLOCKS, serving, visiting

pytestmark = in_a_browser


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (number, _):
        yield number


def test_two_tabs_do_not_meddle(visit: Visit, port: int) -> None:
    one, other = (shown(visit(address_of(port, BLOCKS, 1))) for _ in range(2))
    first = pixels(one)
    settled(other, lambda: other.locator("#stage").press("Shift+ArrowDown"))
    assert (pixels(other) != first).any()
    assert (pixels(one) == first).all()


def test_one_visitor_too_many_is_told_and_let_in_later(visit: Visit, port: int) -> None:
    with ExitStack() as others:
        for _ in range(MOST_SOCKETS):
            others.enter_context(visiting(port))
        page = visit(address_of(port, BLOCKS, 1))
        until_told(page, "too many pages are open")
        assert page.evaluate("explorer.scene") is None
        assert page.locator("#waiting").is_visible()
    shown(page)
    assert not page.locator("#message").is_visible()
    assert not page.locator("#waiting").is_visible()


def test_a_page_waits_for_a_busy_server_and_goes_on_when_one_that_is_gone_comes_back(browser: Any) -> None:
    context = browser.new_context()
    page = context.new_page()
    with serving(BLOCKS) as (port, process):
        page.goto(address_of(port, BLOCKS, 2))
        shown(page)
        process.send_signal(signal.SIGSTOP)  # it is there, and gives no answer
        page.locator("#stage").press("Shift+ArrowLeft")
        until_told(page, "The server is busy")
        process.send_signal(signal.SIGCONT)
        until(page, "document.querySelector('#message').hidden && explorer.frame.can_undo")
        edited = pixels(page)
    until_told(page, "server is gone")
    with serving(BLOCKS, port=port):
        until(page, "document.querySelector('#message').hidden && explorer.frame.can_undo")
        assert page.evaluate("explorer.scene.index") == 2
        assert np.abs(pixels(page) - edited).max() <= 2
        context.close()
