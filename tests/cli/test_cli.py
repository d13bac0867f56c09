"""The command line, each command in a process of its own."""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
import warnings
from collections.abc import Callable
from inspect import getdoc, signature
from pathlib import Path

import pytest
from PIL import Image
from rich.console import Console

from emorl.cli import COMMANDS, DATA_COMMANDS, function, main
from emorl.runs.presets import PRESETS
from emorl.training import console
from emorl.training.trainer import train

TINY = "efficient-morl/tetrominoes-tiny"


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trained run, however badly."""
    directory = tmp_path_factory.mktemp("runs") / "tiny"
    train(PRESETS[TINY], directory)
    return directory


def test_train_from_a_preset_then_from_its_config(
    tmp_path: Path, emorl: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    options = ["--train.steps", 4, "--model.num-steps", 2, "--train.num-steps", "2 2:1"]
    first = emorl("train", TINY, "--out", "a", *options)
    assert first.returncode == 0, first.stderr
    assert "step 4/4" in first.stderr
    assert "ARI" in first.stderr
    assert "images/s" in first.stderr
    config = json.loads((tmp_path / "a" / "config.json").read_text())
    assert config["train"]["steps"] == 4
    assert config["train"]["num_steps"] == "2 2:1"
    again = emorl("train", "a/config.json", "--out", "b")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "a/weights.safetensors").read_bytes() == (
        tmp_path / "b/weights.safetensors"
    ).read_bytes()


def test_data_preview_and_store(
    tmp_path: Path, emorl: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    assert (
        emorl("data", "preview", "tetrominoes", "--count", 5, "--split", "test", "--out", "p.png").returncode
        == 0
    )
    with Image.open(tmp_path / "p.png") as picture:
        assert picture.size == (8 * 109 + 4, 2 * 109 + 4)
    assert emorl("data", "store", "tetrominoes", "--count", 100, "--workers", 1, "--out", "s").returncode == 0
    options = [
        "--data.path",
        "s",
        "--data.train-size",
        80,
        "--data.test-size",
        10,
        "--data.validation-size",
        10,
    ]
    trained = emorl("train", TINY, "--out", "r", "--train.steps", 2, *options)
    assert trained.returncode == 0, trained.stderr
    assert emorl("evaluate", "r").returncode == 0


def test_list_names_everything(emorl: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    listed = emorl("list").stdout
    for name in ["efficient-morl", "tetrominoes", *PRESETS]:
        assert name in listed
    one_kind = emorl("list", "datasets").stdout
    assert "multi-dsprites-textured" in one_kind
    assert "efficient-morl" not in one_kind


@pytest.mark.parametrize("arguments", [[], ["train"], ["train", TINY], ["evaluate"], ["decompose"], ["data"],
                                       ["data", "store"], ["data", "preview"], ["bench"], ["list"]])  # fmt: skip
def test_help_is_worth_reading(
    arguments: list[str], emorl: Callable[..., subprocess.CompletedProcess[str]]
) -> None:
    result = emorl(*arguments, "--help")
    assert result.returncode == 0
    assert len(result.stdout) > 200 or arguments == ["list"]
    if arguments == ["train", TINY]:
        assert "--model.num-slots INT" in result.stdout
        assert "K, unless a call says otherwise" in result.stdout


@pytest.mark.parametrize("command", [*COMMANDS, *DATA_COMMANDS])
def test_help_explains_every_option(command: str) -> None:
    runs = function(*(COMMANDS | DATA_COMMANDS)[command])
    said, _, options = (getdoc(runs) or "").partition("\n\nArgs:\n")
    assert len(said) > 40
    assert re.findall(r"^    (\w+): [A-Za-z0-9].{10,}", options, flags=re.M) == list(
        signature(runs).parameters
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["train", "efficient-morl/tetrominos", "--out", "r"], "did you mean 'efficient-morl/tetrominoes"),
        (["train", "absent.json", "--out", "r"], "Cannot read absent.json"),
        (["train", "broken.json", "--out", "r"], "broken.json is not JSON"),
        (["train", "typo.json", "--out", "r"], "train.stpes is not a setting of TrainConfig; did you mean 'steps'"),
        (["train", "--out", "r", TINY], "Name the preset first"),
        (["train", TINY, "--out", "r", "--train.steps", "0"], "train.steps must be at least 1"),
        (["train", TINY, "--out", "r", "--data.name", "cats"], "There is no data set 'cats'"),
        (["train", TINY, "--out", "r", "--model.objective.geco.target", "-4500"], "cannot be reached"),
        (["train", TINY, "--out", "RUN"], "holds a run already"),
        (["evaluate", "absent"], "There is no run directory and no released model 'absent'"),
        (["evaluate", "."], "is not a run directory"),
        (["evaluate", "RUN", "--slots", "0"], "--slots must be at least 1"),
        (["evaluate", "RUN", "--steps", "-1"], "--steps must be at least 0"),
        (["evaluate", "RUN", "--images", "0"], "--images must be at least 1"),
        (["decompose", "RUN", "absent.png", "--out", "o"], "Cannot read absent.png: No such file"),
        (["decompose", "RUN", "broken.json", "--out", "o"], "Cannot read broken.json: it is not an image"),
        (["decompose", "RUN", "huge.png", "--out", "o"], "huge.png"),
        (["decompose", "RUN", ".", "--out", "o"], "Cannot read huge.png: it has more than"),
        (["decompose", "RUN", "--out", "o"], "Name at least one image"),
        (["data", "preview", "cats", "--out", "p.png"], "There is no data set 'cats'"),
        (["data", "preview", "tetrominoes", "--count", "0", "--out", "p.png"], "at least 1"),
        (["data", "preview", "tetrominoes", "--out", "p.xyz"], "Cannot write p.xyz"),
        (["data", "store", "cats", "--out", "s"], "There is no data set 'cats'"),
        (["data", "store", "tetrominoes", "--out", "."], "exists already"),
    ],
)  # fmt: skip
def test_mistakes_get_one_clear_line(
    arguments: list[str],
    message: str,
    run: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from emorl.cli import main

    monkeypatch.chdir(tmp_path)
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "typo.json").write_text('{"model": {"kind": "efficient-morl"}, "train": {"stpes": 3}}')
    Image.new("RGB", (50, 40)).save(tmp_path / "large.png")
    (tmp_path / "huge.png").write_bytes(png_header(60_000, 60_000))
    with pytest.raises(SystemExit) as stopped:
        main([str(run) if argument == "RUN" else argument for argument in arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
    assert error.startswith("emorl: ")


def png_header(width: int, height: int) -> bytes:
    """An image that claims to be enormous."""
    import struct
    import zlib

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b""))
        + chunk(b"IEND", b"")
    )


@pytest.mark.parametrize("command", sorted({*COMMANDS} - {"train", "data", "list", "export"}))
def test_commands_that_compute_take_a_device(command: str) -> None:
    """Training has its own test; data sets are drawn, and exported files tried, on the CPU."""
    assert signature(function(*COMMANDS[command])).parameters["device"].default == "auto"


def test_mistakes_exit_with_two_in_a_process(
    emorl: Callable[..., subprocess.CompletedProcess[str]],
    fresh_emorl: Callable[..., subprocess.CompletedProcess[str]],
) -> None:
    result = fresh_emorl("evaluate", "absent")
    assert result.returncode == 2
    assert result.stderr.startswith("emorl: There is no run directory")
    assert "Traceback" not in result.stderr
    unknown = emorl("train", TINY, "--out", "r", "--train.stepz", 3)
    assert unknown.returncode == 2
    assert "Traceback" not in unknown.stderr


def test_output_can_be_piped_into_a_reader_that_leaves(tmp_path: Path) -> None:
    command = f"{sys.executable} -m emorl list | true"
    result = subprocess.run(
        command, shell=True, capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert "Traceback" not in result.stderr


def test_a_disk_that_is_full_behind_the_output_is_one_line(tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        result = subprocess.run(
            [sys.executable, "-m", "emorl", "list"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            timeout=300,
            check=False,
        )
    assert result.returncode == 2
    assert result.stderr == "emorl: No space left on device.\n"


def test_what_the_machine_refuses_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    for arguments in (["evaluate", "a" * 300], ["train", TINY, "--out", "b" * 300, "--resume"]):
        with pytest.raises(SystemExit) as stopped:
            main(arguments)
        assert stopped.value.code == 2
        assert "File name too long" in capsys.readouterr().err.splitlines()[-1]


@pytest.mark.filterwarnings("always")
def test_names_move_no_cursor_and_are_no_markup(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    name = "\x1b[2J[/b]{task}\nx"
    shutil.copytree(run, name)
    Image.new("RGB", (35, 35)).save(tmp_path / f"{name}.png")
    main(["decompose", name, f"{name}.png", "--out", "o"])
    main(["train", f"{name}/config.json", "--out", name, "--resume"])
    warnings.warn(f"about {name}", stacklevel=1)
    told = capsys.readouterr().err
    assert "\\x1b[2J[/b]{task}\\nx" in told
    assert "emorl: about \\x1b[2J[/b]{task} x" in told
    assert "\x1b" not in told


def test_bars_show_names_as_they_are(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = io.StringIO()
    terminal = Console(file=shown, force_terminal=True, width=100, no_color=True)
    monkeypatch.setattr(console, "Console", lambda **_: terminal)
    with console.progress_bar("scoring [/b]{x}\x1b[2J") as progress:
        progress(1, 2)
    assert "scoring [/b]{x}\\x1b[2J" in shown.getvalue()
