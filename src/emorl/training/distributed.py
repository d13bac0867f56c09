"""Several processes train as one: they share what they measure, and when one fails, all end with one message."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from subprocess import Popen
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from emorl.errors import UserError
from emorl.runs.checkpoint import saved_step
from emorl.runs.directory import LOCK, NotResumable
from emorl.runs.lock import is_abandoned
from emorl.runs.resume import resume_command

if TYPE_CHECKING:
    from lightning_fabric import Fabric

PATIENCE = 2.0  # seconds to find out which process was lost
# Exit statuses of processes that finished, or stopped because they were asked to.
ON_REQUEST = (0, 128 + signal.SIGINT, 128 + signal.SIGTERM)

Children = list[Popen[bytes]]


class PeerLost(Exception):
    """Another process of this training has ended, so this one must. Without a message: another one tells why."""


def mean_over_ranks(fabric: Fabric, terms: Mapping[str, Tensor | float]) -> dict[str, Tensor]:
    """Means over the global batch, in one exchange."""
    means = torch.stack(
        [torch.as_tensor(term, device=fabric.device).float().mean().detach() for term in terms.values()]
    )
    if fabric.world_size > 1:
        means = fabric.all_reduce(means, reduce_op="mean")  # type: ignore[assignment]
    return dict(zip(terms, means, strict=True))


@contextmanager
def failing_together(fabric: Fabric, directory: Path) -> Iterator[None]:
    """When one process fails, all end within seconds, and one of them says what happened and how to go on."""
    children = take_over(fabric)
    try:
        with raising_when_one_fails(children), ending_when_stuck(children, directory):
            yield
    except UserError as error:
        if not fabric.is_global_zero:  # the others can only see that this process has ended
            raise PeerLost(f"Process {fabric.global_rank}: {error}") from None
        end(children)
        if isinstance(error, NotResumable) or not saved_step(directory):
            raise
        raise UserError(f"{error} {how_to_continue(directory)}") from None
    except (PeerLost, RuntimeError) as error:
        if not (isinstance(error, PeerLost) or is_lost_connection(error)):
            raise
        if fabric.is_global_zero:
            cause = what_happened(children)
            end(children)
            raise PeerLost(f"{cause} {how_to_continue(directory)}") from None
        if fabric.global_rank == 1 and is_first_lost(directory):
            raise PeerLost(f"Process 0 was killed. {how_to_continue(directory)}") from None
        raise PeerLost from None


def take_over(fabric: Fabric) -> Children:
    """Returns the processes that fabric has started, rank i + 1 at i.

    It watches over them, but kills this process, too, before it can say what happened; so its watch ends here.
    """
    for thread in threading.enumerate():
        if thread.name == "child-process-observer":
            thread._child_processes = []  # type: ignore[attr-defined]
    return list(getattr(fabric.strategy.launcher, "procs", []))


@contextmanager
def raising_when_one_fails(children: Children) -> Iterator[None]:
    """Raises PeerLost as soon as a child fails, also while nothing is exchanged, as in a long validation."""
    if not children or not hasattr(signal, "SIGCHLD"):
        yield
        return

    def check_children(signum: int, frame: object) -> None:
        if failures(children):
            raise PeerLost

    previous = signal.signal(signal.SIGCHLD, check_children)
    try:
        yield
    finally:
        signal.signal(signal.SIGCHLD, previous)


@contextmanager
def ending_when_stuck(children: Children, directory: Path, *, grace: float = 10.0) -> Iterator[None]:
    """Ends this process if it hangs for `grace` seconds after a child has failed, as it may in the midst of CUDA."""
    is_over = threading.Event()

    def watch() -> None:
        while not failures(children):
            if is_over.wait(0.5):
                return
        if not is_over.wait(grace):
            cause = what_happened(children)
            end(children)
            sys.stderr.write(f"emorl: {cause} {how_to_continue(directory)}\n")
            os._exit(1)

    if children:
        threading.Thread(target=watch, daemon=True).start()
    try:
        yield
    finally:
        is_over.set()


def is_lost_connection(error: RuntimeError) -> bool:
    """Whether the backend complains; gloo has no exception of its own, but its errors name its source files."""
    return isinstance(error, torch.distributed.DistError) or "gloo/" in str(error)


def failures(children: Children) -> dict[int, int]:
    """Exit statuses of the ranks that have failed."""
    statuses = {rank: child.poll() for rank, child in enumerate(children, start=1)}
    return {rank: status for rank, status in statuses.items() if status not in (None, *ON_REQUEST)}


def what_happened(children: Children) -> str:
    """Names the process that failed, if it is one of ours."""
    deadline = time.monotonic() + PATIENCE
    while children and not failures(children) and time.monotonic() < deadline:
        time.sleep(0.05)  # connections close before the process has quite ended
    failed = failures(children)
    if not failed:
        return (
            "The connection to another process of this training was lost: it was killed, or its node is gone."
        )
    # A signal is a cause, a status may be its effect.
    rank, status = min(failed.items(), key=lambda item: item[1])
    how = f"was killed by {signal.Signals(-status).name}" if status < 0 else f"ended with status {status}"
    return f"Process {rank} of {len(children) + 1} (id {children[rank - 1].pid}) {how}."


def is_first_lost(directory: Path) -> bool:
    """Whether process 0, which would say what happened, was killed."""
    deadline = time.monotonic() + PATIENCE
    while (directory / LOCK).exists() and time.monotonic() < deadline:
        if is_abandoned(directory):
            return True
        time.sleep(0.05)
    return False


def end(children: Children) -> None:
    """Ends what is left: a process that waits for others may wait for half an hour, and it has nothing to save."""
    for child in children:
        child.kill()


def how_to_continue(directory: Path) -> str:
    """Returns how far the run is saved and the command that continues it."""
    step = saved_step(directory)
    if not step:
        return "Nothing was saved yet: start it again."
    return f"Everything up to step {step} is saved. Continue with: {resume_command(directory)}"
