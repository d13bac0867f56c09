"""emorl explore"""

from __future__ import annotations

import socket
import webbrowser

import tyro

from emorl.cli.options import Device, choose_device
from emorl.errors import UserError, check_range, missing
from emorl.files import cause
from emorl.runs.run import Run, released
from emorl.training.console import say


def explore_command(
    runs: tyro.conf.Positional[tuple[str, ...]] = (),
    port: int = 8765,
    open: bool = False,
    device: Device = "auto",
) -> None:
    """Open a page on which you take scenes apart and drag, turn, remove and copy their objects.

    The page is served to this machine alone. Stop it with Ctrl-C.

    Args:
        runs: Run directories or names of released weights to choose from, beside all released weights; the first one is
            shown first.
        port: Of the page's address; 0 takes any that is free.
        open: Open the page in your browser.
        device: auto takes a GPU if there is one.
    """
    check_range("--port", port, 0, 65535)
    where = choose_device(device)
    try:
        import uvicorn

        from emorl.explorer.catalogue import Catalogue
        from emorl.explorer.server import make_app, options
    except ImportError as error:
        raise missing(error.name or "a package", "explore", "The explorer") from None
    names = [*runs, *(name for name in released() if name not in runs)]
    catalogue = Catalogue.of([Run.open(name) for name in names], where)
    for entry in catalogue.entries[: len(runs)]:
        _ = entry.model  # a mistake should not wait for the page
    listening = listen(port)
    number = listening.getsockname()[1]
    address = f"http://127.0.0.1:{number}/"
    say(f"The explorer is at {address}   (Ctrl-C ends it)")
    if open:
        webbrowser.open(address)
    server = uvicorn.Server(uvicorn.Config(make_app(catalogue, port=number), **options(number)))
    server.run(sockets=[listening])


def listen(port: int) -> socket.socket:
    """A socket that listens on this machine's own address. Raises UserError if the port is taken."""
    listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind(("127.0.0.1", port))
        listening.listen(128)
    except OSError as error:
        listening.close()
        raise UserError(
            f"Cannot listen on port {port}: {cause(error)}. Choose another: --port 0 takes any."
        ) from None
    return listening
