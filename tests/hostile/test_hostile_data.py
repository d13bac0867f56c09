"""Whatever a file of data holds: right results or one line, never another exception, a signal, a gigabyte or a wait."""

from __future__ import annotations

import mmap
import os
import resource
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import corpus
import numpy as np
import pytest
from corpus import REPLACEMENTS, Format, problem_of, problems_apart, problems_of
from formats import FORMATS, RECORD_FILES
from PIL import Image

from emorl.data.images import read_pixels
from emorl.errors import UserError

SAMPLE = 13  # variants of each format, besides its own, in the default suite
THOUSANDS = 1000
MEMORY = 5 * 2**30  # address space of a command; PyTorch alone takes half of it


@pytest.mark.parametrize("name", FORMATS)
def test_a_good_sample_is_read(name: str, tmp_path: Path) -> None:
    FORMATS[name].read(FORMATS[name].make(tmp_path))


@pytest.mark.parametrize("name", FORMATS)
def test_a_sample_of_hostile_files(name: str) -> None:
    form = FORMATS[name]
    rng = np.random.default_rng(list(name.encode()))
    numbers = {*range(len(form.own)), *rng.choice(len(REPLACEMENTS), 4, replace=False) + len(form.own)}
    numbers |= set(rng.integers(len(form.own), 10**6, SAMPLE - 4))
    assert not problems_of(form, numbers)


@pytest.mark.slow
@pytest.mark.parametrize("name", FORMATS)
def test_thousands_of_hostile_files(name: str) -> None:
    assert not problems_apart(name, THOUSANDS)


def limited() -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))


def test_the_command_line_says_it_in_one_line(
    tmp_path: Path, fresh_emorl: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    bomb = RECORD_FILES["eight million elements"](tmp_path)
    check_one_line(
        fresh_emorl("data", "convert", bomb, "--as", "tetrominoes", "--out", "o", preexec_fn=limited)
    )
    photos = FORMATS["folder"].make(tmp_path)
    for path in photos.glob("*.*"):
        path.unlink()
        os.mkfifo(path)
    check_one_line(
        fresh_emorl("data", "preview", "folder", "--path", photos, "--out", "o.png", preexec_fn=limited)
    )


@pytest.mark.slow
@pytest.mark.parametrize("kind", [*RECORD_FILES, *FORMATS["h5"].own])
def test_the_command_line_on_what_each_format_has_of_its_own(
    kind: str, tmp_path: Path, fresh_emorl: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    make = RECORD_FILES.get(kind) or FORMATS["h5"].own[kind]
    result = fresh_emorl(
        "data", "convert", make(tmp_path), "--as", "tetrominoes", "--out", "o", preexec_fn=limited
    )
    check_one_line(result)


def check_one_line(result: subprocess.CompletedProcess[str]) -> None:
    assert result.returncode == 2, result.stderr
    assert "Traceback" not in result.stderr
    assert result.stderr.splitlines()[-1].startswith("emorl: ")


def test_the_guard_would_catch_what_breaks_the_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(corpus, "MOST_SECONDS", 1)
    monkeypatch.setattr(corpus, "MOST_MEMORY", 5 * 10**7)

    def make(folder: Path) -> Path:
        (folder / "x").write_bytes(b"abc")
        return folder / "x"

    def take_memory(path: Path) -> None:
        with mmap.mmap(-1, 10**8) as block:  # an array might get memory that earlier tests have left
            block[::4096] = bytes(len(block[::4096]))

    def two_lines(path: Path) -> None:
        raise UserError("")

    assert problem_of(Format(make, lambda path: None), 0) is None
    for read, words in (
        (lambda path: 1 // 0, "raises ZeroDivisionError"),
        (lambda path: time.sleep(30), "raises TimeoutError"),
        (take_memory, "takes 0.1 GB"),
        (two_lines, "says ''"),
    ):
        assert words in str(problem_of(Format(make, read), 0))


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["RGB", "RGBA", "P", "I;16"])
def test_the_largest_picture_takes_less_than_a_gigabyte(mode: str) -> None:
    def make(folder: Path) -> Path:
        Image.new(mode, (9459, 9459)).save(folder / "x.png")
        return folder / "x.png"

    assert problem_of(Format(make, read_pixels, own={"as it is": make}), 0) is None
