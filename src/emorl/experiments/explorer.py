"""Explorer: how long a drag takes to become pixels, alone and beside fifty visitors, and what they cost in memory."""

from __future__ import annotations

import asyncio
import json
import math
import os
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from emorl.errors import UserError
from emorl.evaluation.metrics import Metric
from emorl.experiments.base import Experiment, Job
from emorl.experiments.results import Result, Row
from emorl.experiments.tables import provenance, table
from emorl.runs.run import released

CROWDED = "efficient-morl/multi-dsprites"  # whose images have 64 x 64 pixels
MEBIBYTE = 2**20
ALONE = "alone: "  # how labels of single visitors begin


@dataclass(frozen=True)
class Trial:
    """How much is measured."""

    edits: int = 60  # of a visitor alone
    waits: bool = True  # until it is known what the numbers of slots do
    visitors: int = 50
    seconds: float = 60.0
    pause: float = 0.5  # seconds between two edits of one visitor of many


@dataclass(frozen=True)
class Served:
    """A running explorer."""

    port: int
    process: int

    @property
    def cpu_seconds(self) -> float:
        """The processor time that it has used so far."""
        fields = Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def memory(self) -> float:
        """Its memory in MiB."""
        pages = int(Path(f"/proc/{self.process}/statm").read_text().split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE") / MEBIBYTE


@contextmanager
def serving() -> Iterator[Served]:
    """Runs `emorl explore` in a process of its own."""
    command = [sys.executable, "-m", "emorl", "explore", "--port", "0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"127\.0\.0\.1:(\d+)/", line)
        try:
            if found is None:
                raise UserError(f"The explorer did not start: {line.strip()}")
            yield Served(int(found[1]), process.pid)
        finally:
            process.terminate()


class Visitor:
    """One socket, as the page opens it."""

    def __init__(self, socket: Any) -> None:
        self.socket = socket

    async def ask(self, kind: str, **fields: Any) -> dict[str, Any]:
        """Sends a request and returns the head of the reply."""
        await self.socket.send(json.dumps({"kind": kind, **fields}))
        raw = await self.socket.recv()
        length = int.from_bytes(raw[:4], "little")
        head: dict[str, Any] = json.loads(raw[4 : 4 + length])
        if head["kind"] == "error":
            raise UserError(f"The explorer refused a request {kind!r}: {head['message']}")
        return head

    async def open(self, model: str, index: int) -> int:
        """Opens a scene. Returns a slot with an object in it."""
        settings = {"data": None, "slots": None, "steps": None, "seed": 0, "upload": False}
        head = await self.ask("open", model=model, index=index, **settings)
        shares = [
            area if place and area < 0.5 else 0.0
            for place, area in zip(head["places"], head["area"], strict=True)
        ]
        return shares.index(max(shares))

    async def drag(self, slot: int, number: int) -> float:
        """One message of a drag. Returns the seconds until its pixels are here."""
        down, right = 0.2 * math.sin(number / 5), 0.2 * math.cos(number / 5)
        began = time.perf_counter()
        await self.ask("move", slot=slot, down=down, right=right, grow=0, turn=0, stroke=1)
        return time.perf_counter() - began


def connect(port: int) -> Any:
    """A socket to the explorer."""
    from websockets.asyncio.client import connect as open_socket  # of the extra "explore"

    address = f"127.0.0.1:{port}"
    return open_socket(f"ws://{address}/socket", origin=f"http://{address}", max_size=2**26, compression=None)  # type: ignore[arg-type]


async def alone(served: Served, model: str, trial: Trial) -> dict[str, Any]:
    """One visitor drags as fast as answers come."""
    async with connect(served.port) as socket:
        visitor = Visitor(socket)
        slot = await visitor.open(model, 3)
        while trial.waits and (await visitor.ask("sliders", slot=slot))["rows"] is None:
            await asyncio.sleep(0.2)  # what the numbers of slots do is looked at once for each model
        await visitor.drag(slot, 0)
        before = served.cpu_seconds
        times = [await visitor.drag(slot, number) for number in range(trial.edits)]
    return {**quantiles(times), "cpu_ms": round(1000 * (served.cpu_seconds - before) / len(times), 1)}


async def crowd(served: Served, trial: Trial) -> dict[str, Any]:
    """Many visitors, each of whom opens a scene and drags for a while."""
    ready = asyncio.Barrier(trial.visitors + 1)

    async def visit(number: int) -> list[float]:
        async with connect(served.port) as socket:
            visitor = Visitor(socket)
            slot = await visitor.open(CROWDED, number)
            await ready.wait()
            end = time.monotonic() + trial.seconds
            times: list[float] = []
            await asyncio.sleep(trial.pause * number / trial.visitors)
            while time.monotonic() < end:
                times.append(await visitor.drag(slot, len(times)))
                await asyncio.sleep(max(0.0, trial.pause - times[-1]))
            return times

    before = served.memory
    visits = [asyncio.create_task(visit(number)) for number in range(trial.visitors)]
    await ready.wait()
    opened, cpu = served.memory, served.cpu_seconds
    found = await asyncio.gather(*visits)
    every = [one for times in found for one in times]
    return {
        **quantiles(every),
        "cpu_ms": round(1000 * (served.cpu_seconds - cpu) / len(every), 1),
        "visitors": trial.visitors,
        "seconds": trial.seconds,
        "least_edits": min(map(len, found)),
        "most_edits": max(map(len, found)),
        "memory_before": round(before),
        "memory_opened": round(opened),
        "memory_after": round(served.memory),
    }


def quantiles(seconds: Sequence[float]) -> dict[str, Any]:
    """Latencies in milliseconds."""
    ordered = sorted(1000 * one for one in seconds)
    at = {"ms_p95": math.ceil(0.95 * len(ordered)) - 1, "ms_worst": len(ordered) - 1}
    found = {"ms_median": statistics.median(ordered), **{name: ordered[n] for name, n in at.items()}}
    return {"edits": len(ordered), **{name: round(value, 1) for name, value in found.items()}}


def measure(job: Job) -> Iterator[Row]:
    """One visitor with each of the released weights, then many at once."""
    trial = (
        Trial(edits=3, waits=False, visitors=3, seconds=1.0, pause=0.2) if job.scale == "tiny" else Trial()
    )
    names = [CROWDED] if job.scale == "tiny" else released()
    with serving() as served:
        for name in names:
            job.say(f"A visitor with {name}.")
            yield Row(f"{ALONE}{name}", asyncio.run(alone(served, name, trial)))
        job.say(f"{trial.visitors} visitors.")
        yield Row(f"{trial.visitors} visitors: {CROWDED}", asyncio.run(crowd(served, trial)))


def sections(result: Result) -> dict[str, str]:
    """A table, and what many visitors cost."""
    head = ["", "edits", "median ms", "95 % below", "worst", "CPU ms per edit"]
    names = ("ms_median", "ms_p95", "ms_worst", "cpu_ms")
    lines = [
        [row.label, str(row.values["edits"]), *(f"{row.values[name]:.0f}" for name in names)]
        for row in result.rows
    ]
    many = result.rows[-1].values
    load = result.stamp.get("load")
    beside = f" The machine was busy with other work (load {load:.1f})." if load and load > 2 else ""
    said = (
        f"{many['visitors']} visitors at once dragged for {many['seconds']:.0f} seconds; the one who was served least "
        f"saw {many['least_edits']} pictures, the one who was served most {many['most_edits']}. The server's memory "
        f"went from {many['memory_before']} MiB to {many['memory_opened']} when all had opened a scene, and was "
        f"{many['memory_after']} at the end.{beside}"
    )
    return {"docs/explorer.md#load": f"{table(head, lines)}\n\n{said} {provenance(result)}"}


EXPERIMENT = Experiment(
    "The explorer under load",
    measure,
    ("ms_median", "ms_p95", "ms_worst", "cpu_ms"),
    protocol="messages of a drag over a socket, until the pixels are there; 50 visitors for a minute",
    metrics={
        "ms_median": Metric("median ms", "", 0),
        "ms_p95": Metric("95 % below, ms", "", 0),
        "ms_worst": Metric("worst, ms", "", 0),
        "cpu_ms": Metric("CPU ms per edit", "", 1),
    },
    sections=sections,
)
