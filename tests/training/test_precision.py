"""Training in bf16."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from emorl.errors import UserError
from emorl.models import MODELS, build
from emorl.probability import Noise
from emorl.runs.directory import read_metrics
from emorl.runs.presets import PRESETS
from emorl.training import trainer
from tiny import tiny, weights


@pytest.mark.parametrize("kind", MODELS)
def test_bf16_keeps_losses_in_full_precision(kind: str) -> None:
    """The loss is close to that of 32 bits, and likelihood, KL and what GECO sees have 32 bits."""
    model = build(PRESETS[f"{kind}/tetrominoes-tiny"].model)
    x = torch.rand(4, 3, 35, 35)
    found = []
    for precision in ("32-true", "bf16-mixed"):
        torch.manual_seed(1)
        loss, terms = trainer.Objective(model, precision, Noise())(x, None)
        model.zero_grad()
        loss.backward()
        assert not [name for name, term in {"loss": loss, **terms}.items() if term.dtype == torch.bfloat16]
        assert all(p.grad.isfinite().all() for p in model.parameters() if p.grad is not None)
        gradient = torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])
        found.append((float(loss.detach()), float(gradient.norm())))
    (loss_32, norm_32), (loss_16, norm_16) = found
    assert loss_32 != loss_16
    assert norm_16 == pytest.approx(norm_32, rel=0.05)
    # Log-likelihoods may be zero by chance: they may differ by a twentieth of a nat for each number of an image.
    assert loss_16 == pytest.approx(loss_32, rel=0.02, abs=0.05 * x[0].numel() if "nll" in terms else 0)


def test_bf16_trains(tmp_path: Path) -> None:
    trainer.train(tiny(precision="bf16-mixed"), tmp_path)
    last = read_metrics(tmp_path)[-1]
    assert last["skipped"] == 0
    assert not any(t.dtype == torch.bfloat16 for t in weights(tmp_path).values())


def test_a_cpu_that_only_claims_bf16_is_found_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "emorl.training.devices.PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    )
    with pytest.raises(UserError, match="cannot compute in bf16"):
        trainer.train(tiny(precision="bf16-mixed"), tmp_path)
    assert not list(tmp_path.iterdir())
