"""Stopping on request: a signal ends training after the current step, with everything saved."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Interrupted(Exception):
    """A signal asked training to stop; everything is saved."""

    def __init__(self, signum: int, step: int) -> None:
        super().__init__(f"stopped at step {step}")
        self.signum, self.step = signum, step


@contextmanager
def stop_requests() -> Iterator[list[int]]:
    """Collects SIGINT and SIGTERM instead of dying of them; a second signal has its usual effect."""
    received: list[int] = []
    previous: dict[int, Any] = {}

    def restore() -> None:
        for number, handler in previous.items():
            signal.signal(number, handler)

    def receive(signum: int, frame: object) -> None:
        received.append(signum)
        restore()
        sys.stderr.write("\nStopping after this step ...\n")

    try:
        for number in (int(signal.SIGINT), int(signal.SIGTERM)):
            previous[number] = signal.signal(number, receive)
        yield received
    finally:
        restore()
