"""The command line in processes of their own: forks of a server that has imported everything, there in no time."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch

from emorl.cli import COMMANDS, main

context = multiprocessing.get_context("forkserver")
context.set_forkserver_preload(
    ["lightning_fabric", "forks", *(f"emorl.cli.{module}" for module, _ in COMMANDS.values())]
)


def answer(
    arguments: Sequence[str], folder: Path, environment: Mapping[str, str], out: Path, err: Path
) -> None:
    """What the process does: as `python -m emorl` in `folder`, but that it prints into two files."""
    os.setsid()
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(folder)
    for number, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), number)
    torch.set_num_threads(1)
    main(arguments)


class Fork:
    """A process that runs the command line, with what tests use of subprocess.Popen."""

    def __init__(self, arguments: Sequence[object], folder: Path, out: Path, err: Path) -> None:
        self.words, self.out, self.err = [str(argument) for argument in arguments], out, err
        for path in (out, err):
            path.touch()
        environment = {**os.environ, "COLUMNS": "200"}
        self.process = context.Process(target=answer, args=(self.words, folder, environment, out, err))
        self.process.start()

    @property
    def pid(self) -> int:
        assert self.process.pid is not None
        return self.process.pid

    @property
    def returncode(self) -> int | None:
        return self.process.exitcode

    def poll(self) -> int | None:
        return self.process.exitcode

    def send_signal(self, signum: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, signum)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def wait(self, timeout: float = 300) -> int:
        """Waits for its end. Returns its exit status."""
        self.process.join(timeout)
        if self.returncode is None:
            self.kill()
            raise TimeoutError(f"{self.words} has not ended after {timeout} s")
        return self.returncode

    def communicate(self, timeout: float = 300) -> tuple[str, str]:
        """Waits for its end. Returns what it has printed."""
        self.wait(timeout)
        return self.out.read_text(encoding="utf-8"), self.err.read_text(encoding="utf-8")

    def first_words(self, timeout: float = 300) -> str:
        """Waits for a first line of what it tells, and returns it."""
        deadline = time.monotonic() + timeout
        while "\n" not in (told := self.err.read_text(encoding="utf-8")):
            assert self.poll() is None, told
            assert time.monotonic() < deadline
            time.sleep(0.02)
        return told.splitlines()[0]


def command_line(arguments: Sequence[object], folder: Path, told: Path) -> subprocess.CompletedProcess[str]:
    """Runs the command line in `folder` and waits for it; what it prints passes through the empty folder `told`."""
    process = Fork(arguments, folder, told / "out", told / "err")
    out, err = process.communicate()
    return subprocess.CompletedProcess(process.words, process.wait(), out, err)
