"""The server: the page's files, and a socket for each visitor.

Requests of a visitor are answered one after the other, on a few threads that all visitors share. Of the requests that
wait, one that a later one makes superfluous is dropped: a drag shows the latest place, however slow the machine is. A
reply is sent before the next request is taken, so a visitor who reads slowly keeps one reply in memory and no more.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from concurrent.futures import ThreadPoolExecutor
from importlib.resources import files
from itertools import count
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request as HttpRequest
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from emorl.errors import UserError
from emorl.explorer.catalogue import Catalogue
from emorl.explorer.guard import HEADERS, Allowance, Guard
from emorl.explorer.messages import Request, read_request, write_reply
from emorl.explorer.session import Session
from emorl.explorer.uploads import MOST_BYTES

MOST_SOCKETS = 64
MOST_WAITING = 32  # requests of one visitor
SLOW_READER = 30.0  # seconds that a reply may take to be sent
BUSY = 1013  # the socket's code for "try again later"
KINDS = {".html": "text/html", ".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


class Inbox:
    """Requests that wait, in the order in which they came, without those that later ones made superfluous."""

    def __init__(self) -> None:
        self.waiting: OrderedDict[Any, Request] = OrderedDict()
        self.numbers = count()
        self.changed = asyncio.Event()
        self.is_closed = False

    def put(self, request: Request) -> bool:
        """Adds a request, unless too many wait: returns whether it was added."""
        key = request.replaces or next(self.numbers)
        if key not in self.waiting and len(self.waiting) >= MOST_WAITING:
            return False
        if key in self.waiting and next(reversed(self.waiting)) != key:
            del self.waiting[key]  # something came in between: it goes to the end
        self.waiting[key] = request
        self.changed.set()
        return True

    async def get(self) -> Request | None:
        """The next request; None when no more will come."""
        while not self.waiting:
            if self.is_closed:
                return None
            self.changed.clear()
            await self.changed.wait()
        return self.waiting.popitem(last=False)[1]

    def close(self) -> None:
        """No more will come, and what waits is not answered: its visitor has left."""
        self.is_closed = True
        self.waiting.clear()
        self.changed.set()


class Visitors:
    """All sockets, and the threads that answer them."""

    def __init__(self, catalogue: Catalogue, *, threads: int = 2) -> None:
        self.catalogue = catalogue
        self.pool = ThreadPoolExecutor(threads, thread_name_prefix="explorer")
        self.present = 0

    async def serve(self, socket: WebSocket) -> None:
        """Talks with one visitor until one of the two leaves."""
        await socket.accept()
        if self.present >= MOST_SOCKETS:
            await socket.close(BUSY, "too many visitors")
            return
        self.present += 1
        inbox = Inbox()
        answering = asyncio.create_task(self.answer(socket, inbox))
        try:
            await self.read(socket, inbox)
        except WebSocketDisconnect:
            pass
        finally:
            self.present -= 1
            inbox.close()
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)

    async def read(self, socket: WebSocket, inbox: Inbox) -> None:
        """Fills the inbox, no faster than allowed."""
        allowance = Allowance()
        while True:
            message = await socket.receive()
            if message["type"] == "websocket.disconnect":
                return
            try:
                content = message.get("bytes")
                request = (
                    Request("upload", {}, content) if content else read_request(message.get("text") or "")
                )
                if not inbox.put(request):
                    raise UserError("Too many requests wait already; this one was left out.")
            except UserError as error:
                request = Request("error", {"message": str(error)})
                inbox.put(request)
            await asyncio.sleep(allowance.wait(request.kind))

    async def answer(self, socket: WebSocket, inbox: Inbox) -> None:
        """Empties the inbox."""
        session = Session(self.catalogue)
        loop = asyncio.get_running_loop()
        while (request := await inbox.get()) is not None:
            if request.kind == "error":
                reply = write_reply("error", {"message": request["message"], "of": "request"})
            else:
                try:
                    reply = await loop.run_in_executor(self.pool, session.answer, request)
                except Exception as error:  # a bug must not end everybody's connection
                    message = f"This did not work: {type(error).__name__}."
                    reply = write_reply("error", {"message": message, "of": request.kind})
            try:
                await asyncio.wait_for(socket.send_bytes(reply), SLOW_READER)
            except (TimeoutError, RuntimeError, WebSocketDisconnect):
                await asyncio.gather(socket.close(1008, "too slow"), return_exceptions=True)
                return


def page_files() -> dict[str, tuple[bytes, str]]:
    """The files of the page, by name: content and type. They are read once; names from outside reach no disk."""
    found = {}
    for path in files("emorl.explorer").joinpath("static").iterdir():
        suffix = "." + path.name.rsplit(".", 1)[-1]
        if suffix in KINDS:
            found[path.name] = path.read_bytes(), f"{KINDS[suffix]}; charset=utf-8"
    return found


def make_app(catalogue: Catalogue, *, port: int) -> Guard:
    """The whole application, for an address with that port."""
    contents, visitors = page_files(), Visitors(catalogue)

    async def show(request: HttpRequest) -> Response:
        name = request.path_params.get("name", "index.html")
        if name not in contents:
            return PlainTextResponse("There is no such page.", 404, headers=HEADERS)
        content, kind = contents[name]
        return Response(content, headers={**HEADERS, "content-type": kind})

    routes: list[Any] = [
        Route("/", show),
        Route("/{name}", show),
        WebSocketRoute("/socket", visitors.serve),
    ]
    return Guard(Starlette(routes=routes), port=port)


def options(port: int) -> dict[str, Any]:
    """How uvicorn is to serve it: to this machine alone, with messages no larger than an upload."""
    return {
        "host": "127.0.0.1",
        "port": port,
        "log_level": "warning",
        "access_log": False,
        "ws": "websockets-sansio",
        "ws_max_size": MOST_BYTES + 1024,
        "ws_max_queue": 4,
        "ws_per_message_deflate": False,
        "timeout_graceful_shutdown": 2,
        "server_header": False,
    }
