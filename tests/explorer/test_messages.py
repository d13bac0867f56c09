"""Requests and pictures from outside may be anything; what comes of them is an answer or a UserError."""

from __future__ import annotations

import io
import json
import random
from contextlib import suppress
from functools import cache
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from emorl import UserError
from emorl.explorer.catalogue import Catalogue
from emorl.explorer.messages import REQUESTS, Request, read_reply, read_request, write_reply
from emorl.explorer.server import MOST_WAITING, Inbox
from emorl.explorer.session import Session
from emorl.explorer.uploads import MOST_BYTES, read_upload
from emorl.runs.run import Run
from explorer_server import BLOCKS

ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=6), inner, max_size=4),
    max_leaves=8,
)
PLAUSIBLE = (
    st.integers(-1, 40)
    | st.floats(-2, 2)
    | st.booleans()
    | st.none()
    | st.just(BLOCKS)
    | st.just("tetrominoes")
)
SHOULD_WORK: dict[str, Any] = {"kind": "open", "model": BLOCKS, "index": 0, "seed": 0}


@cache
def session() -> Session:
    made = Session(Catalogue.of([Run.open(BLOCKS)]))
    made.catalogue.entries[0].study(wait=True)
    assert head_of(made.answer(read_request(json.dumps(SHOULD_WORK))))["kind"] == "scene"
    return made


def head_of(reply: bytes) -> dict[str, Any]:
    return read_reply(reply)[0]


@settings(max_examples=150, deadline=None)
@given(st.text(max_size=60) | ANYTHING.map(json.dumps))
def test_no_text_is_more_than_an_error(raw: str) -> None:
    with suppress(UserError):
        assert isinstance(read_request(raw), Request)


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_request_gets_an_answer(data: st.DataObject) -> None:
    kind = data.draw(st.sampled_from(sorted(REQUESTS)))
    fields = {name: data.draw(PLAUSIBLE | ANYTHING) for name in REQUESTS[kind]}
    try:
        request = read_request(json.dumps({"kind": kind, **fields}))
    except UserError:
        return
    assert head_of(session().answer(request))["kind"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"kind": "open", "model": "../../etc/passwd", "index": 0, "seed": 0},
        {"kind": "open", "model": BLOCKS, "data": "folder", "index": 0, "seed": 0},
        {"kind": "open", "model": BLOCKS, "data": "../clevr6", "index": 0, "seed": 0},
        {"kind": "open", "model": BLOCKS, "index": 0, "seed": 0, "upload": True},
        {"kind": "set", "slot": 0, "dim": 3000, "value": 0, "stroke": None},
        {"kind": "remove", "slot": 9, "removed": True},
        {"kind": "restore", "edits": {"0": [1.0]}, "removed": []},
        {"kind": "restore", "edits": {}, "removed": [0, 1, 2, 3]},
        {"kind": "copy", "from": 20, "slot": 0},
    ],
)
def test_wrong_requests_are_told(wrong: dict[str, Any]) -> None:
    assert head_of(session().answer(read_request(json.dumps(wrong))))["kind"] == "error"


def test_scenes_of_another_size_are_made_to_fit() -> None:
    reply = session().answer(read_request(json.dumps({**SHOULD_WORK, "data": "multi-dsprites", "index": 1})))
    head, arrays = read_reply(reply)
    assert head["scene"]["data"] == "multi-dsprites"
    assert arrays["picture"].shape == (35, 35, 3)
    assert head_of(session().answer(read_request(json.dumps(SHOULD_WORK))))["scene"]["data"] == "tetrominoes"


@pytest.mark.parametrize(
    "raw",
    [
        '{"kind": "move", "slot": 0, "down": NaN, "right": 0, "grow": 0, "turn": 0, "stroke": 1}',
        '{"kind": "move", "slot": true, "down": 0, "right": 0, "grow": 0, "turn": 0, "stroke": 1}',
        '{"kind": "undo", "path": "/etc"}',
        "[" * 5000,
        '{"kind": "' + "x" * 70_000 + '"}',
        '{"kind": "open", "model": "x", "index": 1e400, "seed": 0}',
    ],
)
def test_unchecked_values_do_not_get_in(raw: str) -> None:
    with pytest.raises(UserError):
        read_request(raw)


def test_replies_survive_the_way() -> None:
    picture = np.arange(48, dtype=np.uint8).reshape(4, 4, 3)
    head, arrays = read_reply(write_reply("x", {"a": 1}, {"picture": picture, "file": b"abc"}))
    assert (head["kind"], head["a"]) == ("x", 1)
    assert np.array_equal(arrays["picture"], picture)
    assert arrays["file"].tobytes() == b"abc"


def test_the_latest_value_wins_and_order_is_kept() -> None:
    inbox = Inbox()

    def put(down: float, stroke: int | None = 1) -> bool:
        fields = {"slot": 0, "down": down, "right": 0, "grow": 0, "turn": 0, "stroke": stroke}
        return inbox.put(read_request(json.dumps({"kind": "move", **fields})))

    assert all([put(0.1), put(0.2), inbox.put(Request("undo")), put(0.3)])
    waiting = [request.values.get("down", request.kind) for request in inbox.waiting.values()]
    assert waiting == ["undo", 0.3]
    for _ in range(3 * MOST_WAITING):
        inbox.put(Request("undo"))
    assert len(inbox.waiting) == MOST_WAITING
    assert not inbox.put(Request("redo"))


def encoded(kind: str, size: tuple[int, int] = (40, 30)) -> bytes:
    pixels = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kind)
    return buffer.getvalue()


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "BMP", "GIF", "TIFF"])
def test_damaged_pictures_are_read_or_refused(kind: str) -> None:
    whole = encoded(kind)
    assert read_upload(whole).shape == (30, 40, 3)
    chance = random.Random(0)
    for _ in range(60):
        damaged = bytearray(whole[: chance.randrange(len(whole)) if chance.random() < 0.3 else len(whole)])
        for _ in range(chance.randrange(1, 8)):
            if damaged:
                damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with suppress(UserError):
            assert read_upload(bytes(damaged)).ndim == 3


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "cannot be read"),
        (b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n", "cannot be read"),
        (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "cannot be read"),
        (b"\x89PNG\r\n\x1a\n" + bytes(MOST_BYTES), "bytes"),
    ],
)
def test_what_is_no_picture_is_refused(content: bytes, told: str) -> None:
    with pytest.raises(UserError, match=told):
        read_upload(content)


@pytest.mark.parametrize("kind", ["PPM", "ICO", "TGA", "PCX", "SGI"])
def test_formats_that_nobody_needs_are_refused(kind: str) -> None:
    """Pillow reads them; each decoder more is one more way in."""
    content = encoded(kind)
    assert Image.open(io.BytesIO(content)).format == kind
    with pytest.raises(UserError, match="cannot be read"):
        read_upload(content)


def test_a_bomb_is_refused_before_it_is_decoded() -> None:
    buffer = io.BytesIO()
    Image.new("1", (9000, 9000)).save(buffer, "PNG")
    assert len(buffer.getvalue()) < 100_000
    with pytest.raises(UserError, match="9000 x 9000"):
        read_upload(buffer.getvalue())
