"""What is not installed is named in one line, together with the extra that brings it."""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

import pytest

from conftest import ROOT
from emorl.cli import main

WEIGHTS = "efficient-morl/tetrominoes"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
LINES = {
    f"evaluate {WEIGHTS} --images 2 --dci fast": ("sklearn", "scikit-learn", "dci"),
    f"report {WEIGHTS} --out r.html --dci fast": ("sklearn", "scikit-learn", "dci"),
    "data convert scenes.h5 --as tetrominoes --out scenes": ("h5py", "h5py", "files"),
    "data convert scenes.tfrecords --as tetrominoes --out scenes": (
        "google_crc32c",
        "google-crc32c",
        "files",
    ),
    f"export {WEIGHTS} --format onnx --out model.onnx": ("onnxruntime", "onnxruntime", "export"),
    "explore": ("uvicorn", "uvicorn", "explore"),
    "train efficient-morl/tetrominoes-tiny --out run --train.logger wandb": ("wandb", "wandb", "wandb"),
}


@pytest.mark.parametrize("line", LINES)
def test_a_missing_extra_is_named(
    line: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, package, extra = LINES[line]
    monkeypatch.chdir(tmp_path)
    Path("scenes.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    Path("scenes.tfrecords").write_bytes(b"anything")
    before = sorted(tmp_path.iterdir())
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit) as left:
        main(line.split())
    told = capsys.readouterr().err.strip()
    assert left.value.code == 2
    assert told.count("\n") == 0, told
    assert f"{package}, which is not installed: pip install 'emorl[{extra}]'" in told
    assert sorted(tmp_path.iterdir()) == before
    wanted = [re.split(r"[>=<\[]", one)[0] for one in PROJECT["optional-dependencies"][extra]]
    assert package in wanted, "the extra brings it"


def test_the_package_itself_is_light() -> None:
    plain = {re.split(r"[>=<\[]", one)[0] for one in PROJECT["dependencies"]}
    extras = PROJECT["optional-dependencies"]
    for name in ("dci", "explore", "export", "files", "tensorboard", "wandb"):
        assert plain.isdisjoint(re.split(r"[>=<\[]", one)[0] for one in extras[name])
