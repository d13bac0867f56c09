"""Wrong arguments of `emorl data`: one line that names the argument, and nothing is made or overwritten."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest
from PIL import Image

from emorl.cli import main
from emorl.data import DataConfig
from emorl.errors import UserError

STORE = "data store tetrominoes --out o"
WRONG = {
    f"{STORE} --count 100000000000000": "--count must be at most",
    f"{STORE} --count -1": "--count must be at least 1, not -1",
    f"{STORE} --count 0": "--count must be at least 1",
    f"{STORE} --seed -1": "--seed must be at least 0",
    f"{STORE} --seed 18446744073709551616": "--seed must be at most 18446744073709551615",
    f"{STORE} --workers 0": "--workers must be at least 1",
    f"{STORE} --workers 1000000": "--workers must be at most",
    "data store tetromino --out o": "did you mean 'tetrominoes'",
    "data store tetrominoes --out there": "there exists already",
    "data store tetrominoes --out there/a.png/x --count 3": "Cannot make the folder",
    "data preview tetrominoes --out o.png --count 100000000000000": "--count must be at most 1000",
    "data preview tetrominoes --out o.png --count -3": "--count must be at least 1",
    "data preview tetrominoes --out o.png --seed -1": "--seed must be at least 0",
    "data preview tetrominoes --out o.png --seed 99999999999999999999999": "--seed must be at most",
    "data preview tetrominoes --out o.png --path there": "there holds no stored scenes",
    "data preview tetromino --out o.png": "did you mean 'tetrominoes'",
    "data preview tetrominoes --out there/a.png": "a.png was not written by emorl",
    "data preview tetrominoes --count 1 --out o.xyz": "Cannot write o.xyz",
    "data preview folder --out o.png": "emorl data preview folder --path FOLDER",
    "data preview folder --path none --out o.png": "none is not a folder of images",
    "data preview folder --path there --split test --out o.png": "at least one each",
    "data convert none --as tetrominoes --out o": "Cannot read none",
    "data convert there/a.png --as tetrominoes --out o --limit 0": "--limit must be at least 1, not 0",
    "data convert there/a.png --as tetrominoes --out o --limit -5": "--limit must be at least 1",
    "data convert there/a.png --as tetrominoes --out o": "this is not a TFRecord file",
    "data convert there/a.png --as tetromino --out o": "did you mean 'tetrominoes'",
    "data convert there --as tetrominoes --out o": "Is a directory",
}


@pytest.mark.parametrize("command", WRONG)
def test_wrong_arguments_are_one_line(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(warnings, "showwarning", warnings.showwarning)  # which the command line replaces
    (tmp_path / "there").mkdir()
    Image.new("RGB", (4, 4)).save(tmp_path / "there" / "a.png")
    before = (tmp_path / "there" / "a.png").read_bytes()
    with pytest.raises(SystemExit) as stop:
        main(command.split())
    assert stop.value.code == 2
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("emorl: ")
    assert WRONG[command] in line
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    assert (tmp_path / "there" / "a.png").read_bytes() == before


def test_one_s_own_images_can_be_looked_at(
    tmp_path: Path, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    for number in range(12):
        Image.new("RGB", (20, 10), (number, 0, 0)).save(tmp_path / f"{number}.bmp")
    result = emorl("data", "preview", "folder", "--path", tmp_path, "--count", 2, "--out", "out/p.png")
    assert result.returncode == 0, result.stderr
    assert (tmp_path / "out" / "p.png").exists()


def test_settings_of_data_have_limits() -> None:
    refused: list[dict[str, Any]] = [
        {"seed": -1},
        {"seed": 2**64},
        {"train_size": 10**14},
        {"test_size": 0},
        {"image_size": 10**6},
    ]
    for options in refused:
        with pytest.raises(UserError, match=rf"data\.{next(iter(options))} must be at"):
            DataConfig(**options)
