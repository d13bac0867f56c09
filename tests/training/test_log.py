"""What training says and logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from emorl.evaluation.metrics import metric
from emorl.models.base import NotFinite
from emorl.runs.directory import read_metrics
from emorl.training import trainer
from emorl.training.log import PROGRESS, diagnose
from helpers import present
from tiny import tiny


def test_a_collapsed_run_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(trainer, "SETTLED", 2)
    trainer.train(tiny(evaluate_every=2), tmp_path)
    assert capsys.readouterr().err.count("This run looks collapsed") == 1  # three evaluations, one warning


def test_a_run_whose_validation_makes_no_sense_is_told_so_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise NotFinite("The model computes numbers that are not finite.")

    monkeypatch.setattr(trainer, "SETTLED", 2)
    monkeypatch.setattr(trainer, "evaluate", broken)
    trainer.train(tiny(evaluate_every=2, log_every=1), tmp_path)
    assert capsys.readouterr().err.count("numbers that are not finite") == 1
    assert [record["step"] for record in read_metrics(tmp_path)] == list(range(6))


def test_diagnosis_knows_a_healthy_run() -> None:
    assert diagnose({"explained": 0.8, "slots_used": 3.6}) is None
    assert "collapsed" in present(diagnose({"explained": -0.2, "slots_used": 3.6}))
    assert "one slot" in present(diagnose({"explained": 0.6, "slots_used": 1.0}))


def test_names_of_directories_are_not_markup(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    trainer.train(tiny(), tmp_path / "a[" / "b]")
    assert f"Next: emorl evaluate '{tmp_path}/a[/b]'" in capsys.readouterr().err


def test_the_first_line_says_what_happens_and_later_ones_read_metrics(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    trainer.train(tiny(), tmp_path)
    first, *others = capsys.readouterr().err.splitlines()
    assert first == (
        "Training efficient-morl on 60000 images of tetrominoes (35 x 35), 4 a step, on cpu, 6 steps."
    )
    second = next(line for line in others if line.startswith("step 6/6"))
    scores = {
        name: value for name, value in read_metrics(tmp_path)[-1].items() if name.startswith("validation_")
    }
    for name in PROGRESS:
        entry = metric(name)
        assert f"  {entry.title} {entry.text(scores[f'validation_{name}'])}" in second
