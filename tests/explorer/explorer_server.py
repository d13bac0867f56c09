"""A real server of the explorer in a process of its own, and a client in Python."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from websockets.sync.client import ClientConnection, connect

from emorl.data.base import Array
from emorl.explorer.messages import read_reply

SPRITES = "efficient-morl/multi-dsprites"
BLOCKS = "efficient-morl/tetrominoes"
CLEVR = "efficient-morl/clevr6"

Reply = tuple[dict[str, Any], dict[str, Array]]


@contextmanager
def serving(*arguments: object, port: int = 0) -> Iterator[tuple[int, subprocess.Popen[str]]]:
    """Runs `emorl explore` and yields its port and process."""
    command = [sys.executable, "-m", "emorl", "explore", *map(str, arguments), "--port", str(port)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)/", line)
        assert found, line
        yield int(found[1]), process
    finally:
        process.terminate()
        process.wait(20)
        if process.stderr is not None:
            process.stderr.close()


@contextmanager
def visiting(port: int, **options: Any) -> Iterator[ClientConnection]:
    """A socket as the page opens it."""
    origin: Any = options.pop("origin", f"http://127.0.0.1:{port}")
    with connect(
        f"ws://127.0.0.1:{port}/socket", origin=origin, max_size=2**26, compression=None, **options
    ) as socket:
        yield socket


def ask(socket: ClientConnection, kind: str, **fields: Any) -> Reply:
    """Sends a request and returns the reply."""
    socket.send(json.dumps({"kind": kind, **fields}))
    return answer(socket)


def answer(socket: ClientConnection) -> Reply:
    """The next reply."""
    raw = socket.recv(timeout=60)
    assert isinstance(raw, bytes)
    return read_reply(raw)


def open_scene(socket: ClientConnection, model: str, **fields: Any) -> Reply:
    """Opens a scene with the page's usual settings."""
    usual = {"data": None, "index": 0, "slots": None, "steps": None, "seed": 0, "upload": False}
    return ask(socket, "open", model=model, **{**usual, **fields})


def wait_until(condition: Any, seconds: float = 30) -> None:
    """Waits for something to become true."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)
