"""emorl bench and figure 10: which passes are measured, and the command that does it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

from emorl.cli import main
from emorl.errors import UserError
from emorl.experiments import EXPERIMENTS, figure_10
from emorl.experiments.figure_10 import cells
from emorl.experiments.results import Row
from emorl.experiments.runner import reproduce
from emorl.experiments.tables import results_table

TINY = "efficient-morl/tetrominoes-tiny"


def test_what_cannot_be_built_is_said_and_left_out() -> None:
    said: list[str] = []
    names = ("efficient-morl/clevr6-paper", "slot-attention/clevr6-paper")
    found = cells(names, sizes=(35, 64), batch_sizes=(1, 2), say=said.append)
    assert len(found) == 2 * 3 * 2 + 2  # one size of Slot Attention
    assert [cell.label for cell in found[:2]] == ["EfficientMORL, I=0"] * 2
    assert len(said) == 1
    assert "slot-attention/clevr6-paper at 35x35" in said[0]
    with pytest.raises(UserError, match="divisible by 16"):
        cells(("slot-attention/clevr6-paper",), sizes=(35,), batch_sizes=(1,))


def row(label: str, size: int, **changes: Any) -> Row:
    numbers = {
        f"{mode}_{name}": 1.0 + size
        for mode in ("forward", "training")
        for name in ("ms", "ms_low", "ms_high", "mib")
    }
    preset = label.split(",")[0]
    return Row(
        label, {"preset": preset, "image_size": size, "batch_size": 1, "parameters": 5, **numbers, **changes}
    )


def test_figure_10_is_made_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figure_10, "cells", lambda **options: [])
    monkeypatch.setattr(
        figure_10, "measure_cells", lambda chosen, repeats: [row("a, I=0", 64), row("a, I=0", 96)]
    )
    result = reproduce("figure-10", folder=tmp_path, say=lambda message: None)
    assert [one.label for one in result.rows] == ["a, I=0, 64x64", "a, I=0, 96x96"]
    assert "MiB" in results_table(EXPERIMENTS["figure-10"], result)
    assert (tmp_path / "cpu" / "figure-10.png").exists()


def test_bench_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory, which takes a process for each row, is that of other tests."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        "emorl.cli.bench.keep_freed_memory", lambda: False
    )  # for good: tests share this process
    monkeypatch.setattr(figure_10, "peak_memory", lambda passes: [2**20, 2**21])
    main(["bench", TINY, "--sizes", "16", "--steps", "0", "1", "--quick", "--out", "b"])
    table = capsys.readouterr().out.splitlines()
    assert [line.split("  ")[0] for line in table[1:]] == ["EfficientMORL, I=0", "EfficientMORL, I=1"]
    result = json.loads((tmp_path / "b" / "bench.json").read_text())
    assert result["stamp"]["commit"]
    assert result["stamp"]["cpu"]
    rows = [row["values"] for row in result["rows"]]
    assert [row["I"] for row in rows] == [0, 1]
    for found in rows:
        assert 0 < found["forward_ms_low"] <= found["forward_ms"] <= found["forward_ms_high"]
        assert found["training_images_per_second"] == pytest.approx(1000 / found["training_ms"])
        assert found["forward_gflop"] < found["training_gflop"]
        assert found["parameters"] == 20_048
        assert (found["forward_mib"], found["training_mib"]) == (1, 2)
    assert rows[0]["training_gflop"] < rows[1]["training_gflop"]
    assert (tmp_path / "b" / "bench.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["efficient-morl/clevr7"], "There is no preset 'efficient-morl/clevr7'; did you mean"),
        ([TINY, "--sizes", "4"], "--sizes must be at least 5, not 4"),
        ([TINY, "--batch-sizes", "0"], "--batch-sizes must be at least 1, not 0"),
        ([TINY, "--repeats", "0"], "--repeats must be at least 1, not 0"),
        ([TINY, "--steps", "-1"], "--steps must be at least 0, not -1"),
        ([TINY, "--device", "cuda"], "There is no CUDA device here; use --device cpu"),
        (["slot-attention/clevr6-paper", "--sizes", "35"], "divisible by 16"),
    ],
)
def test_mistakes_get_one_clear_line(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "cuda" in arguments and torch.cuda.is_available():
        pytest.skip("there is one")
    with pytest.raises(SystemExit) as stopped:
        main(["bench", *arguments])
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1
