"""The wheel, in an environment that holds nothing else: what it brings is enough, and what it lacks is named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from conftest import ROOT

WEIGHTS = "efficient-morl/tetrominoes"


def run(*words: object, cwd: Path, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Runs a program as a user would who has no checkout."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    result = subprocess.run(
        [str(word) for word in words], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )
    assert not check or result.returncode == 0, result.stderr
    return result


@pytest.mark.slow
def test_the_wheel_works_in_an_empty_environment(tmp_path: Path) -> None:
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    run(sys.executable, "-m", "venv", "empty", cwd=tmp_path)
    binaries = tmp_path / "empty" / "bin"
    run(binaries / "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wheel, cwd=tmp_path)
    emorl, somewhere = binaries / "emorl", tmp_path / "somewhere"
    somewhere.mkdir()
    assert run(emorl, "--version", cwd=somewhere).stdout.startswith("emorl ")
    assert WEIGHTS in run(emorl, "list", "weights", cwd=somewhere).stdout
    scores = run(emorl, "evaluate", WEIGHTS, "--images", "8", "--json", cwd=somewhere).stdout
    assert json.loads(scores)["ari"] > 0.9
    run(emorl, "data", "preview", "tetrominoes", "--out", "scenes.png", cwd=somewhere)
    assert run(emorl, "decompose", WEIGHTS, "scenes.png", "--out", "parts", cwd=somewhere).returncode == 0
    for words, extra in (
        (("evaluate", WEIGHTS, "--images", "8", "--dci", "fast"), "dci"),
        (("export", WEIGHTS, "--format", "onnx", "--out", "model.onnx"), "export"),
        (("explore",), "explore"),
    ):
        refused = run(emorl, *words, cwd=somewhere, check=False)
        assert refused.returncode == 2
        assert f"pip install 'emorl[{extra}]'" in refused.stderr
        assert "Traceback" not in refused.stderr
