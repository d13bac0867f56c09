"""What training says and logs."""

from __future__ import annotations

from pathlib import Path

import pytest

from emorl.training import trainer
from emorl.training.diagnosis import diagnose
from tiny import tiny


def test_a_collapsed_run_is_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture
) -> None:
    monkeypatch.setattr(trainer, "SETTLED", 2)
    trainer.train(tiny(evaluate_every=2, warm_up=0), tmp_path)
    assert capsys.readouterr().err.count("This run looks collapsed") == 1  # three evaluations, one warning


def test_diagnosis_knows_a_healthy_run() -> None:
    assert diagnose({"explained": 0.8, "slots_used": 3.6}) is None
    assert "collapsed" in diagnose({"explained": -0.2, "slots_used": 3.6})
    assert "one slot" in diagnose({"explained": 0.6, "slots_used": 1.0})
