"""What passes cost: counted, timed, and the command that does it."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from conftest import Run
from emorl.cli import main
from emorl.errors import UserError
from emorl.evaluation.efficiency import Cost, FlopCounter, Pass, costs, parameters, refines_at_will
from emorl.evaluation.memory import peak_memory
from emorl.models import build
from emorl.models.base import Model
from emorl.plots.efficiency import efficiency_figure, lines
from emorl.reproduce import efficiency
from emorl.reproduce.efficiency import CLEVR6, cells
from emorl.reproduce.run import reproduce
from emorl.runs.presets import PRESETS
from emorl.types import Decomposition, Outcome

TINY = "efficient-morl/tetrominoes-tiny"


class Hog(Model):
    """Takes 32 MiB per image and lets go of it."""

    config = PRESETS[TINY].model

    def forward(self, x: Tensor, **budget: Any) -> Outcome:
        torch.ones(len(x), 2**23)
        return Outcome(x.sum(), {}, ())

    def decode(self, slots: Tensor) -> Decomposition:
        raise NotImplementedError


def test_counts_products_convolutions_and_their_derivatives() -> None:
    layer, x = nn.Conv2d(3, 8, 3), torch.rand(1, 3, 10, 10, requires_grad=True)
    once = 2 * 3 * 8 * 9 * 8 * 8
    with FlopCounter() as counter, torch.no_grad():
        layer(x)
    assert counter.total == once
    with FlopCounter() as counter:
        layer(x).sum().backward()
    assert counter.total == 3 * once  # once more for the weights, and for the input
    with FlopCounter() as counter, torch.no_grad():
        nn.Linear(5, 7)(torch.rand(2, 5))
    assert counter.total == 2 * 2 * 5 * 7


def test_quartiles() -> None:
    assert Cost([3.0], 0).quartiles == (3, 3, 3)
    assert Cost([5.0, 1.0, 4.0, 2.0, 3.0], 0).quartiles == (2, 3, 4)


def test_passes_take_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[int] = []
    monkeypatch.setattr(Pass, "run", lambda self, model, x: turns.append(self.batch_size))
    seen: list[tuple[int, int]] = []
    found = costs(
        {B: Pass(Hog, B) for B in (1, 2)}, repeats=2, progress=lambda done, total: seen.append((done, total))
    )
    assert turns == [1, 2] * 3
    assert seen[-1] == (6, 6)
    assert [len(cost.seconds) for cost in found.values()] == [2, 2]  # the first round warms up


def test_memory_is_what_a_pass_takes_at_its_height() -> None:
    one, three = (size / 2**20 for size in peak_memory([Pass(Hog, 1), Pass(Hog, 3)]))
    assert 31 < one < 36
    assert 95 < three < 102


def test_a_pass_that_fails_elsewhere_is_reported() -> None:
    with pytest.raises(UserError, match=r"over 2 images failed .*at least 0.*choose smaller batches"):
        peak_memory([Pass(partial(build, PRESETS[TINY].model), 2, num_steps=-1)])


def test_only_models_that_can_do_without_refinement_vary_it() -> None:
    free = [name for name in CLEVR6 if refines_at_will(partial(build, PRESETS[name].model))]
    assert free == ["efficient-morl/clevr6"]
    assert parameters(partial(build, PRESETS["efficient-morl/clevr6"].model)) == 666_500


def test_what_cannot_be_built_is_said_and_left_out() -> None:
    said: list[str] = []
    names = ("efficient-morl/clevr6", "slot-attention/clevr6")
    found = cells(names, sizes=(35, 64), batch_sizes=(1, 2), say=said.append)
    assert len(found) == 2 * 3 * 2 + 2  # one size of Slot Attention
    assert [cell.label for cell in found[:2]] == ["EfficientMORL, I=0"] * 2
    assert len(said) == 1
    assert "slot-attention/clevr6 at 35x35" in said[0]
    with pytest.raises(UserError, match="divisible by 16"):
        cells(("slot-attention/clevr6",), sizes=(35,), batch_sizes=(1,))


def row(label: str, size: int, **changes: Any) -> dict[str, Any]:
    numbers = {
        f"{mode}_{name}": 1.0 + size
        for mode in ("forward", "training")
        for name in ("ms", "ms_low", "ms_high", "mib")
    }
    preset = label.split(",")[0]
    return {"label": label, "preset": preset, "image_size": size, "batch_size": 1, "parameters": 5, "seed": 0,
            **numbers, **changes}  # fmt: skip


def test_a_line_per_model_and_budget() -> None:
    rows = [row(label, size) for label in ("a, I=0", "a, I=1", "b") for size in (64, 32)]
    drawn = lines(rows)
    assert [label for label, _, _ in drawn] == ["a, I=0", "a, I=1", "b"]
    looks = [(look["color"], look["ls"]) for _, look, _ in drawn]
    assert looks[0][0] == looks[1][0] != looks[2][0]
    assert looks[0][1] != looks[1][1]
    assert [point["image_size"] for point in drawn[0][2]] == [32, 64]
    figure = efficiency_figure([*rows, row("b", 32, batch_size=2)])
    assert len(figure.axes) == 2


def test_figure_10_is_made_of_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(efficiency, "cells", lambda **options: [])
    monkeypatch.setattr(efficiency, "measure", lambda chosen, repeats: [row("a, I=0", 64), row("a, I=0", 96)])
    results = reproduce("figure-10", folder=tmp_path, say=lambda message: None)
    assert [entry["label"] for entry in results["summary"]] == ["a, I=0, 64x64", "a, I=0, 96x96"]
    assert "MiB" in results["table"]
    assert (tmp_path / "cpu" / "figure-10.png").exists()


def test_bench_command(emorl: Run, tmp_path: Path) -> None:
    result = emorl("bench", TINY, "--sizes", 16, "--steps", 0, 1, "--quick", "--out", "b")
    assert result.returncode == 0, result.stderr
    table = result.stdout.splitlines()
    assert [line.split("  ")[0] for line in table[1:]] == ["EfficientMORL, I=0", "EfficientMORL, I=1"]
    rows = json.loads((tmp_path / "b" / "bench.json").read_text())["rows"]
    assert [row["steps"] for row in rows] == [0, 1]
    for found in rows:
        assert 0 < found["forward_ms_low"] <= found["forward_ms"] <= found["forward_ms_high"]
        assert found["training_images_per_second"] == pytest.approx(1000 / found["training_ms"])
        assert found["forward_gflop"] < found["training_gflop"]
        assert found["parameters"] == 20_048
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
        (["slot-attention/clevr6", "--sizes", "35"], "divisible by 16"),
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
