"""Every command on hostile files: right results or one line, exit 0 or 2.

Files of data, cards and results are damaged as in the other tests. Those of runs, which these tests damage too, are
well-formed here but hold other values.
"""

from __future__ import annotations

import json
import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_formats import COMMAND_FORMATS, LINES, NO_ROW
from corpus import MOST_SECONDS, REPLACEMENTS, problems_apart, problems_of
from PIL import Image
from run_formats import good

from emorl.cli import COMMANDS, DATA_COMMANDS, main
from emorl.runs.directory import CHECKPOINT, CONFIG, HISTORY, METRICS_FILE, SCORES, WEIGHTS
from tiny import TINY

FILES = (METRICS_FILE, METRICS_FILE, HISTORY, CONFIG, SCORES, SCORES)  # those that hold more, more often
STRANGE: tuple[Any, ...] = (None, "x", "nan", [], {}, -1, 1e308, True, [[1]], {"a": 1})
QUICK = (
    "figure curves RUN --out o.png",
    f"release RUN a/b --preset {TINY} --folder o",
    "train RUN/config.json --out RUN --resume",
)
OTHERS = (
    "report RUN --quick --images 1 --out o.html",
    "evaluate RUN --images 1",
    "decompose RUN p.png --out o",
    "sweep steps RUN --images 1 --values 0 --out s.json",
    "figure posteriors RUN --out p2.png",
    "export RUN --part decode --format pt2 --out m.pt2",
    "explore RUN --port 0",
    f"train {TINY} --from RUN --train.steps 1 --out t",
)


def exchange(values: Any, rng: np.random.Generator) -> None:
    """Removes one value somewhere in a tree of JSON, or puts a strange one in its place."""
    keys = list(values) if isinstance(values, dict) else list(range(len(values)))
    if not keys:
        return
    key = keys[int(rng.integers(len(keys)))]
    if isinstance(values[key], dict | list) and rng.random() < 0.8:
        exchange(values[key], rng)
    elif rng.random() < 0.2:
        del values[key]
    else:
        values[key] = STRANGE[int(rng.integers(len(STRANGE)))]


def make_run(folder: Path, number: int) -> Path:
    """A run of which one file holds one to three strange values."""
    rng = np.random.default_rng(number)
    run = folder / "run"
    run.mkdir()
    for name in (CONFIG, WEIGHTS, CHECKPOINT, METRICS_FILE, HISTORY, SCORES):
        (run / name).write_bytes(good()[name])
    name = FILES[int(rng.integers(len(FILES)))]
    text = (run / name).read_text()
    parts = [json.loads(line) for line in (text.splitlines() if name.endswith(".jsonl") else [text])]
    for _ in range(int(rng.integers(1, 4))):
        exchange(parts[int(rng.integers(len(parts)))], rng)
    (run / name).write_text("".join(json.dumps(part) + "\n" for part in parts))
    return run


def check(commands: tuple[str, ...], run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for command in commands:
        started, status = time.process_time(), 0
        try:
            main(
                [
                    str(run) + word.removeprefix("RUN") if word.startswith("RUN") else word
                    for word in command.split()
                ]
            )
        except SystemExit as ended:
            status = int(ended.code or 0)
        said = capsys.readouterr().err
        assert status in (0, 2), said
        assert not status or said.splitlines()[-1].startswith("emorl: "), said
        assert "Traceback" not in said
        assert time.process_time() - started < MOST_SECONDS


# Commands warn of a scores.json that holds something else: to leave it alone is right.
@pytest.mark.filterwarnings("ignore:.*holds no scores of emorl:UserWarning")
@pytest.mark.parametrize("number", range(6))
def test_a_sample_of_strange_values(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    check(QUICK, make_run(tmp_path, number), capsys)


@pytest.fixture
def explorer_that_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """`emorl explore` opens its runs, listens, and then ends at once."""

    def end(server: Any, sockets: list[socket.socket]) -> None:
        for one in sockets:
            one.close()

    monkeypatch.setattr("uvicorn.Server.run", end)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*holds no scores of emorl:UserWarning")
@pytest.mark.usefixtures("explorer_that_ends")
@pytest.mark.parametrize("number", range(100, 200))
def test_many_strange_values_and_every_command(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Image.new("RGB", (35, 35)).save("p.png")
    check(OTHERS + QUICK, make_run(tmp_path, number), capsys)


def test_every_command_is_among_them() -> None:
    lines = [line.split() for line in (*QUICK, *OTHERS, *LINES)]
    assert {words[0] for words in lines} == set(COMMANDS)
    assert {words[1] for words in lines if words[0] == "data"} == set(DATA_COMMANDS)


@pytest.mark.parametrize(
    "name", [name for name in COMMAND_FORMATS if not NO_ROW.startswith(name.split(" (")[0])]
)
def test_a_good_file_is_taken(name: str, tmp_path: Path) -> None:
    COMMAND_FORMATS[name].read(COMMAND_FORMATS[name].make(tmp_path))


@pytest.mark.parametrize("name", COMMAND_FORMATS)
def test_commands_on_a_sample_of_hostile_files(name: str) -> None:
    form = COMMAND_FORMATS[name]
    rng = np.random.default_rng(list(name.encode()))
    numbers = {*rng.choice(len(form.own) + len(REPLACEMENTS), 2, replace=False), rng.integers(10**5, 10**6)}
    assert not problems_of(form, numbers)


@pytest.mark.slow
@pytest.mark.parametrize("name", COMMAND_FORMATS)
def test_commands_on_hundreds_of_hostile_files(name: str) -> None:
    assert not problems_apart(name, 150)
