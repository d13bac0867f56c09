"""Chromium without a window: where it is on this machine, and how it is started so that it asks nothing of anyone."""

from __future__ import annotations

import shutil

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def find_chromium() -> str | None:
    """The path of the browser; None if it is not here."""
    return next(filter(None, map(shutil.which, BROWSERS)), None)
