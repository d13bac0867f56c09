"""The running server: who may talk to it, what it answers, and that nobody makes it wait."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus

from conftest import ROOT
from emorl.explorer.guard import Allowance
from explorer_server import BLOCKS, SPRITES, answer, ask, open_scene, serving, visiting


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with serving() as (number, _):
        yield number


def get(port: int, path: str, **headers: str) -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", path, headers=headers)
    reply = connection.getresponse()
    found = reply.status, reply.read(), {name.lower(): value for name, value in reply.getheaders()}
    connection.close()
    return found


def test_the_page_asks_nobody_else(port: int) -> None:
    status, content, headers = get(port, "/")
    assert status == 200
    assert b"app.js" in content
    assert "default-src 'none'" in headers["content-security-policy"]
    names = [path.name for path in (ROOT / "src/emorl/explorer/static").iterdir()]
    assert len(names) > 10
    for name in names:
        status, content, _ = get(port, f"/{name}")
        assert status == 200
        assert b"https://" not in content


@pytest.mark.parametrize(
    "path",
    [
        "/../server.py",
        "/%2e%2e/server.py",
        "/..%2fserver.py",
        "/static/app.js",
        "/etc/passwd",
        "/__init__.py",
    ],
)
def test_no_path_leads_to_the_disk(port: int, path: str) -> None:
    assert get(port, path)[0] == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},
        {"Host": "evil.example:80"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
    ],
)
def test_others_are_refused(port: int, headers: dict[str, str]) -> None:
    assert get(port, "/", **headers)[0] == 403


@pytest.mark.parametrize("origin", ["http://evil.example", "http://127.0.0.1:1", "null", None])
def test_sockets_of_other_sites_are_refused(port: int, origin: str | None) -> None:
    with pytest.raises(InvalidStatus), visiting(port, origin=origin):
        pass


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="elsewhere, loopback has one address")
def test_it_listens_on_one_address_alone(port: int) -> None:
    with socket.create_connection(("127.0.0.1", port), timeout=5):
        pass
    with pytest.raises(ConnectionRefusedError), socket.create_connection(("127.0.0.2", port), timeout=5):
        pass


def test_an_edit_changes_one_object_within_a_tenth_of_a_second(port: int) -> None:
    with visiting(port) as visitor:
        head, first = open_scene(visitor, SPRITES, index=3)
        assert head["kind"] == "scene"
        k = next(k for k, place in enumerate(head["places"]) if place and 0.01 < head["area"][k] < 0.4)
        times = []
        for n in range(12):
            began = time.monotonic()
            head, moved = ask(visitor, "move", slot=k, down=0.01 * n, right=0.1, grow=0, turn=0, stroke=1)
            times.append(time.monotonic() - began)
        assert head["changed"] == [k]
        assert sorted(times)[len(times) // 4] < 0.1  # not the median: the machine may have other work
        assert (moved["result"] != first["result"]).any()
        assert ask(visitor, "undo")[1]["result"].tobytes() == first["result"].tobytes()


def test_wrong_messages_do_not_end_the_conversation(port: int) -> None:
    with visiting(port) as visitor:
        for wrong in ("", "no json", "{}", '{"kind": "launch"}', '{"kind": "undo"}'):
            visitor.send(wrong)
            assert answer(visitor)[0]["kind"] == "error"
        visitor.send(b"not a picture")
        assert answer(visitor)[0]["kind"] == "error"
        assert open_scene(visitor, BLOCKS)[0]["kind"] == "scene"


def test_too_large_a_message_ends_one_socket_only(port: int) -> None:
    with visiting(port) as visitor, visiting(port) as other:
        with suppress(ConnectionClosed):
            visitor.send(bytes(9 * 2**20))
        with pytest.raises(ConnectionClosed):
            visitor.recv(timeout=20)
        assert ask(other, "hello")[0]["kind"] == "models"


def test_a_flood_is_slowed_down_and_others_are_served(port: int) -> None:
    with visiting(port) as loud, visiting(port) as quiet:
        open_scene(loud, BLOCKS)
        for n in range(600):
            fields = {"slot": 0, "dim": 1, "value": n / 600, "stroke": 1}
            loud.send(json.dumps({"kind": "set", **fields}))
        began = time.monotonic()
        assert open_scene(quiet, BLOCKS)[0]["kind"] == "scene"
        assert time.monotonic() - began < 5
        replies = 0
        while answer(loud)[0].get("edited", {}).get("0", [0, 0])[1] < 0.99:
            replies += 1
        assert replies < 600


def test_requests_are_taken_no_faster_than_allowed(port: int) -> None:
    usual = Allowance()
    count = int(usual.at_once + usual.per_second)  # one second more than are taken at once
    with visiting(port) as visitor:
        began = time.monotonic()
        for _ in range(count):
            visitor.send(json.dumps({"kind": "hello"}))
        visitor.send(json.dumps({"kind": "undo"}))
        while answer(visitor)[0]["kind"] != "error":  # to the last one: nothing is open that could be undone
            pass
        assert time.monotonic() - began > 0.9


def test_heavy_requests_count_for_several() -> None:
    allowance = Allowance(per_second=10, at_once=12)
    assert allowance.wait("open") == 0
    assert allowance.wait("move") == 0
    assert allowance.wait("open") == pytest.approx(0.9, abs=0.1)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")
def test_a_slow_reader_costs_little_memory() -> None:
    """Replies to all requests would have 40 MB and more, but the server keeps one until it has been read."""
    with serving() as (port, process), visiting(port, max_queue=1) as lazy, visiting(port) as other:

        def memory() -> int:
            with open(f"/proc/{process.pid}/statm") as file:
                return int(file.read().split()[1]) * 4096

        def change(n: int) -> str:
            return json.dumps({"kind": "set", "slot": 0, "dim": n % 60, "value": 0.5, "stroke": n})

        for visitor in (lazy, other):
            open_scene(visitor, SPRITES)
        size = 0
        for n in range(20):
            other.send(change(n))
            size += len(other.recv(timeout=60))
        before, sent = memory(), 0
        with suppress(TimeoutError):
            while sent * size / 20 < 40 * 2**20:
                lazy.send(change(sent))
                sent += 1
                time.sleep(0.01)
        assert ask(other, "undo")[0]["kind"] == "frame"
        assert memory() - before < 20 * 2**20


def test_a_port_that_is_taken_is_told(port: int) -> None:
    command = [sys.executable, "-m", "emorl", "explore", "--port", str(port)]
    result = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert result.returncode == 2
    assert result.stderr.count("\n") == 1
    assert "--port" in result.stderr
