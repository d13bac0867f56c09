"""Who may talk to the explorer: pages of its own address alone, and not faster than it can follow."""

from __future__ import annotations

import time
from collections.abc import Mapping

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send
from starlette.websockets import WebSocketClose

HEADERS = {
    # Scripts and pictures come from this server alone; nothing is asked of any other.
    "content-security-policy": "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; "
    "connect-src 'self'; frame-src 'self'; frame-ancestors 'self'; base-uri 'none'; form-action 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-resource-policy": "same-origin",
    "cache-control": "no-store",
}


class Guard:
    """Refuses requests for another host, and sockets that were opened by another site's page.

    A page of any site can make a browser talk to 127.0.0.1; its Origin tells. A name that another site's owner points
    at 127.0.0.1 tells itself by its Host.
    """

    def __init__(self, app: ASGIApp, *, port: int) -> None:
        self.app = app
        self.hosts = {f"{name}:{port}" for name in ("127.0.0.1", "localhost")}

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ("http", "websocket") and not self.is_welcome(scope):
            if scope["type"] == "websocket":
                await WebSocketClose(1008, "wrong Host or Origin")(scope, receive, send)
            else:
                await PlainTextResponse("Wrong Host or Origin.", 403)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def is_welcome(self, scope: Scope) -> bool:
        """Whether Host, and Origin where it is needed, are ours."""
        headers = Headers(scope=scope)
        origin = headers.get("origin")
        if headers.get("host") not in self.hosts:
            return False
        if origin is None:
            return bool(scope["type"] == "http")  # browsers always send it with a socket
        return origin in {f"http://{host}" for host in self.hosts}


class Allowance:
    """So many requests a second, and a few more at once; heavy ones count for several."""

    costs: Mapping[str, int] = {
        **dict.fromkeys(("open", "upload", "trace", "donor", "traverse"), 10),
        "sliders": 4,
    }

    def __init__(self, *, per_second: float = 100, at_once: float = 200) -> None:
        self.per_second, self.at_once = per_second, at_once
        self.left, self.seen = at_once, time.monotonic()

    def wait(self, kind: str) -> float:
        """Takes what a request costs. Returns the seconds to wait before the next one is read."""
        now = time.monotonic()
        self.left = min(self.at_once, self.left + (now - self.seen) * self.per_second)
        self.seen = now
        self.left -= self.costs.get(kind, 1)
        return max(0.0, -self.left / self.per_second)
