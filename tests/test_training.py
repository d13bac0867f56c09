"""Training: schedules, exact resumption, several processes, signals, kills, full disks, non-finite steps."""

from __future__ import annotations

import json
import os
import resource
import shutil
import signal
import subprocess
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

from emorl.errors import UserError
from emorl.geco import GecoConfig
from emorl.models import MODELS, build
from emorl.runs.checkpoint import load_checkpoint, read_checkpoint
from emorl.runs.config import RunConfig, TrainConfig
from emorl.runs.directory import CHECKPOINT, PREVIOUS, WEIGHTS, read_metrics
from emorl.runs.presets import PRESETS
from emorl.runs.run import load
from emorl.training import trainer
from emorl.training.diagnosis import diagnose
from emorl.training.schedules import Curriculum, learning_rate
from emorl.types import Scene

TINY = "efficient-morl/tetrominoes-tiny"
Start = Callable[..., "subprocess.Popen[str]"]


def tiny(**changes: object) -> RunConfig:
    run = PRESETS[TINY]
    return replace(
        run, train=replace(run.train, **{"steps": 6, "checkpoint_every": 3, "evaluate_every": 6, **changes})
    )


def weights(directory: Path) -> dict[str, torch.Tensor]:
    return safetensors.torch.load_file(directory / WEIGHTS)


def assert_same(one: Path, other: Path) -> None:
    assert (one / WEIGHTS).read_bytes() == (other / WEIGHTS).read_bytes()


def wait_for(condition: Callable[[], bool], process: subprocess.Popen[str]) -> None:
    deadline = time.monotonic() + 120
    while not condition():
        assert process.poll() is None, process.communicate()[1]
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_learning_rate_is_the_published_one() -> None:
    train = TrainConfig()
    assert learning_rate(0, train) == 0
    assert learning_rate(5000, train) == pytest.approx(2e-4)
    assert learning_rate(10_000, train) == pytest.approx(4e-4)
    assert learning_rate(110_000, train) == pytest.approx(2e-4)
    cosine = replace(train, decay="cosine", steps=20_000)
    assert learning_rate(15_000, cosine) == pytest.approx(2e-4)
    assert learning_rate(20_000, cosine) == pytest.approx(0, abs=1e-12)
    assert learning_rate(99_999, replace(train, decay="none")) == 4e-4


def test_curriculum_switches_at_its_step(tmp_path: Path) -> None:
    schedule = Curriculum(((0, 3), (4, 1)), 0.0)
    assert [schedule.num_steps(step) for step in (0, 3, 4, 99)] == [3, 3, 1, 1]
    trainer.train(tiny(curriculum=((0, 2), (3, 0)), log_every=1), tmp_path)
    assert [record["num_steps"] for record in read_metrics(tmp_path)] == [2, 2, 2, 0, 0, 0]


def test_curriculum_drops_refinements_that_do_little() -> None:
    curriculum = Curriculum(((0, 3),), 0.5)
    huge = {f"update_{i}": torch.tensor(50.0) for i in (1, 2, 3)}
    large = {f"update_{i}": torch.tensor(1.0) for i in (1, 2, 3)}
    small = {"update_1": torch.tensor(3.0), "update_2": torch.tensor(0.3), "update_3": torch.tensor(0.1)}
    curriculum.update(3, huge)  # an untrained network is not the measure
    for step in range(900):
        curriculum.update(curriculum.num_steps(step), large)
    assert curriculum.num_steps(900) == 3
    seen = []
    for step in range(600):
        seen.append(curriculum.num_steps(step))
        curriculum.update(seen[-1], small)
    assert sorted(seen, reverse=True) == seen
    assert set(seen) == {3, 2, 1}  # one at a time, and never the last
    assert seen.count(3) > 30  # a moving average, not one lucky batch
    never = Curriculum(((0, 3),), 0.0)
    for step in range(600):
        never.update(never.num_steps(step), small)
    assert never.num_steps(600) == 3
    assert Curriculum(((0, 0),), 0.5).num_steps(0) == 0


def test_an_automatic_curriculum_resumes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Curriculum, "SETTLED", 0)
    run = tiny(curriculum=((0, 3),), drop_below=10.0, log_every=1, steps=12)
    trainer.train(run, tmp_path / "whole")
    budgets = [record["num_steps"] for record in read_metrics(tmp_path / "whole")]
    assert budgets == [3, 2, *[1] * 10]
    trainer.train(replace(run, train=replace(run.train, steps=3)), tmp_path / "parts")
    trainer.train(run, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")


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


def test_a_run_directory_is_complete(tmp_path: Path) -> None:
    model = trainer.train(tiny(), tmp_path)
    assert {path.name for path in tmp_path.iterdir()} == {
        "config.json", "environment.json", "metrics.jsonl", CHECKPOINT, PREVIOUS, WEIGHTS
    }  # fmt: skip
    assert RunConfig.read(tmp_path / "config.json") == tiny()
    last = read_metrics(tmp_path)[-1]
    assert {
        "step",
        "loss",
        "nll",
        "kl_hierarchical",
        "kl_refined",
        "grad_norm",
        "skipped",
        "validation_ari",
    } <= set(last)
    loaded = load(tmp_path)
    assert all(torch.equal(t, loaded.state_dict()[name]) for name, t in model.state_dict().items())


def test_a_config_from_before_a_setting_existed_means_its_default() -> None:
    values = tiny().to_dict()
    del values["train"]["nodes"]
    assert RunConfig.from_dict(values) == tiny()


def test_the_seed_determines_the_weights(tmp_path: Path) -> None:
    trainer.train(tiny(), tmp_path / "a")
    trainer.train(
        tiny(evaluate_every=2, evaluate_images=3, log_every=1), tmp_path / "b"
    )  # watching changes nothing
    trainer.train(tiny(seed=1), tmp_path / "c")
    assert_same(tmp_path / "a", tmp_path / "b")
    assert (tmp_path / "a" / WEIGHTS).read_bytes() != (tmp_path / "c" / WEIGHTS).read_bytes()


@pytest.mark.slow  # compiling takes a minute
@pytest.mark.filterwarnings("default")  # the compiler trips over warnings of its own
@pytest.mark.skipif(shutil.which("g++") is None, reason="torch.compile needs a C++ compiler")
@pytest.mark.parametrize("system", ["efficient-morl", "slot-attention"])
def test_compiled_training_learns_the_same(system: str, tmp_path: Path) -> None:
    run = PRESETS[f"{system}/tetrominoes-tiny"]
    torch._dynamo.utils.counters.clear()
    for name in ("plain", "compiled"):
        settings = replace(run.train, steps=4, log_every=1, compile=name == "compiled")
        trainer.train(replace(run, train=settings), tmp_path / name)
    losses = [[line["loss"] for line in read_metrics(tmp_path / name)] for name in ("plain", "compiled")]
    assert losses[1] == pytest.approx(losses[0], rel=1e-3)
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] > 0  # something was compiled


@pytest.mark.parametrize("optimizer", ["adam", "muon"])
def test_resuming_is_exact_in_one_process(tmp_path: Path, optimizer: str) -> None:
    run = tiny(optimizer=optimizer)
    run = replace(run, model=replace(run.model, geco=GecoConfig(target_mse=0.01, warm_up=2, step_size=1e-3)))
    trainer.train(run, tmp_path / "whole")
    half = replace(run, train=replace(run.train, steps=3))
    trainer.train(half, tmp_path / "parts")
    trainer.train(run, tmp_path / "parts", resume=True)
    assert_same(tmp_path / "whole", tmp_path / "parts")
    assert weights(tmp_path / "whole")["geco.zeta"] > 0.55


def test_a_killed_run_resumes_bit_for_bit(tmp_path: Path, start_emorl: Start, emorl: Callable) -> None:
    """kill -9 at any moment, several times, while a checkpoint is written at every step."""
    out = tmp_path / "killed"
    options = ["--train.checkpoint-every", 1, "--train.steps", 100_000, "--train.evaluate-every", 100_000]
    reached = 0
    for attempt in range(3):
        process = start_emorl("train", TINY, "--out", out, *options, *(["--resume"] if attempt else []))

        def is_further(before: int = reached) -> bool:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                checkpoint = load_checkpoint(out) if (out / CHECKPOINT).exists() else None
            return checkpoint is not None and checkpoint["progress"]["step"] >= before + 3

        wait_for(is_further, process)
        time.sleep(0.007 * attempt)
        process.kill()
        process.communicate()
        reached = read_checkpoint(out / CHECKPOINT)["progress"]["step"]  # intact, whenever the kill came
    steps = ["--train.steps", reached + 3]
    assert emorl("train", TINY, "--out", out, *options, *steps, "--resume").returncode == 0
    assert emorl("train", TINY, "--out", "whole", *options, *steps).returncode == 0
    assert_same(out, tmp_path / "whole")
    logged = [record["step"] for record in read_metrics(out)]
    assert logged == sorted(set(logged))  # no step twice


@pytest.mark.parametrize("signum", [signal.SIGTERM, signal.SIGINT])
def test_signals_save_and_exit_cleanly(tmp_path: Path, start_emorl: Start, signum: int) -> None:
    out = tmp_path / "run"
    process = start_emorl(
        "train", TINY, "--out", out, "--train.steps", 100_000, "--train.checkpoint-every", 100_000
    )
    wait_for(lambda: len(read_metrics(out)) > 1, process)
    process.send_signal(signum)
    _, message = process.communicate(timeout=60)
    assert process.returncode == 128 + signum
    assert f"emorl train {out / 'config.json'} --out {out} --resume" in message
    assert "Traceback" not in message
    step = read_checkpoint(out / CHECKPOINT)["progress"]["step"]
    assert f"Stopped at step {step}" in message
    assert load(out) is not None


def test_two_processes_equal_one(tmp_path: Path, emorl: Callable) -> None:
    options = ["--train.steps", 5, "--train.accelerator", "cpu", "--train.learning-rate", 1e-4]
    options += ["--train.optimizer", "adam"]
    one = emorl("train", TINY, "--out", "one", *options)
    assert one.returncode == 0, one.stderr
    two = emorl("train", TINY, "--out", "two", *options, "--train.devices", 2)
    assert two.returncode == 0, two.stderr
    a, b = weights(tmp_path / "one"), weights(tmp_path / "two")
    for found in (a, b):
        # Softmax over slots ignores the bias of the mask logits: its gradient is rounding error, which Adam enlarges.
        found["decoder.rest.7.bias"][12:] = 0
    for name in a:
        torch.testing.assert_close(a[name], b[name], rtol=0, atol=1e-5, msg=name)
    torch.manual_seed(0)
    started = trainer.build(PRESETS[TINY].model).state_dict()
    assert any((a[name] - started[name]).abs().max() > 1e-4 for name in a)  # it did train


@pytest.mark.parametrize("kind", MODELS)
def test_bf16_keeps_losses_in_full_precision(kind: str) -> None:
    """The loss is close to that of 32 bits, and likelihood, KL and what GECO sees have 32 bits."""
    model = build(PRESETS[f"{kind}/tetrominoes-tiny"].model)
    x = torch.rand(4, 3, 35, 35)
    found = []
    for precision in ("32-true", "bf16-mixed"):
        torch.manual_seed(1)
        loss, terms = trainer.Objective(model, precision)(x, None)
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
        "emorl.training.precision.PROBE", "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
    )
    with pytest.raises(UserError, match="cannot compute in bf16"):
        trainer.train(tiny(precision="bf16-mixed"), tmp_path)
    assert not list(tmp_path.iterdir())


def test_several_processes_share_one_error(tmp_path: Path, emorl: Callable) -> None:
    (tmp_path / "file").write_text("")
    result = emorl("train", TINY, "--out", "file", "--train.devices", 2, "--train.accelerator", "cpu")
    assert result.returncode == 2
    assert result.stderr.count("Cannot make the folder") == 1
    assert "Traceback" not in result.stderr


def poisoned(steps: set[int]) -> Callable[..., Iterator[Scene]]:
    """Batches of which some hold NaN."""
    original = trainer.endless

    def batches(*args: object, start: int = 0, **options: object) -> Iterator[Scene]:
        for step, batch in enumerate(original(*args, start=start, **options), start=start):
            yield replace(batch, image=batch.image * float("nan")) if step in steps else batch

    return batches


def test_non_finite_steps_are_skipped_and_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trainer, "endless", poisoned({2, 4}))
    run = tiny(log_every=1)
    run = replace(run, model=replace(run.model, geco=GecoConfig(target_mse=0.01, warm_up=0)))
    model = trainer.train(run, tmp_path)
    assert [record["skipped"] for record in read_metrics(tmp_path)] == [0, 0, 1, 1, 2, 2]
    assert read_metrics(tmp_path)[2]["loss"] is None
    assert all(t.isfinite().all() for t in model.state_dict().values())


def test_a_diverged_run_stops_and_keeps_its_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(trainer, "endless", poisoned(set(range(3, 100))))
    monkeypatch.setattr(trainer, "MAX_SKIPPED", 2)
    with pytest.raises(UserError, match=r"Training diverged.*learning-rate"):
        trainer.train(tiny(), tmp_path)
    assert read_checkpoint(tmp_path / CHECKPOINT)["progress"]["step"] == 3


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "garbage"])
def test_a_damaged_checkpoint_is_passed_over(tmp_path: Path, damage: str) -> None:
    trainer.train(tiny(), tmp_path / "a")
    trainer.train(tiny(), tmp_path / "b")
    path = tmp_path / "a" / CHECKPOINT
    content = bytearray(path.read_bytes())
    if damage == "flip":
        middle = len(content) // 2
        content[middle : middle + 200] = bytes(byte ^ 1 for byte in content[middle : middle + 200])
    path.write_bytes(
        {"truncate": content[:-1000], "empty": b"", "garbage": b"x" * 999}.get(damage, bytes(content))
    )
    with pytest.warns(UserWarning, match=r"checkpoint\.pt is damaged .* looking for the previous one"):
        trainer.train(tiny(), tmp_path / "a", resume=True)
    assert_same(tmp_path / "a", tmp_path / "b")


def test_without_an_intact_checkpoint_there_is_an_error(tmp_path: Path) -> None:
    trainer.train(tiny(), tmp_path)
    for name in (CHECKPOINT, PREVIOUS):
        (tmp_path / name).write_bytes(b"junk")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(UserError, match="No intact checkpoint is left"),
    ):
        trainer.train(tiny(), tmp_path, resume=True)


def test_checkpoints_hold_no_code(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[object, ...]:
            return os.system, ("touch evil",)

    torch.save({"model": Evil()}, tmp_path / CHECKPOINT)
    with pytest.raises(ValueError):
        read_checkpoint(tmp_path / CHECKPOINT)


def test_a_full_disk_leaves_the_last_checkpoint(tmp_path: Path, emorl: Callable) -> None:
    assert emorl("train", TINY, "--out", "run", "--train.steps", 3).returncode == 0
    before = (tmp_path / "run" / CHECKPOINT).read_bytes()
    limit = len(before) // 2

    def fill_disk() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))

    full = emorl("train", TINY, "--out", "run", "--train.steps", 6, "--resume", preexec_fn=fill_disk)
    assert full.returncode == 2
    assert "Cannot write" in full.stderr
    assert "Traceback" not in full.stderr
    assert (tmp_path / "run" / CHECKPOINT).read_bytes() == before
    assert not list((tmp_path / "run").glob(".*.tmp"))
    assert emorl("train", TINY, "--out", "run", "--train.steps", 6, "--resume").returncode == 0


def test_folders_that_cannot_be_written_are_named(tmp_path: Path, emorl: Callable) -> None:
    (tmp_path / "file").write_text("")
    result = emorl("train", TINY, "--out", tmp_path / "file" / "run")
    assert result.returncode == 2
    assert f"Cannot make the folder {tmp_path / 'file' / 'run'}" in result.stderr
    if os.getuid() != 0:
        (tmp_path / "locked").mkdir(mode=0o500)
        assert emorl("train", TINY, "--out", tmp_path / "locked").returncode == 2
    assert emorl("train", TINY, "--out", "/proc/run").returncode == 2


def test_a_run_is_not_overwritten_or_mixed_up(tmp_path: Path) -> None:
    trainer.train(tiny(), tmp_path)
    with pytest.raises(UserError, match="holds a run already: add --resume"):
        trainer.train(tiny(), tmp_path)
    other = replace(tiny(), model=replace(tiny().model, num_slots=5))
    with pytest.raises(UserError, match="model settings differ"):
        trainer.train(other, tmp_path, resume=True)
    with pytest.raises(UserError, match=r"train\.seed must stay 0"):
        trainer.train(tiny(seed=4), tmp_path, resume=True)
    trainer.train(tiny(), tmp_path, resume=True)  # finished already: nothing to do


def test_weights_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    trainer.train(tiny(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    config["model"]["slot_size"] = 16
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(UserError, match="does not fit the model"):
        load(tmp_path)
    (tmp_path / WEIGHTS).write_bytes(b"nonsense")
    with pytest.raises(UserError, match="no readable weights"):
        load(tmp_path)
    (tmp_path / WEIGHTS).unlink()
    with pytest.raises(UserError, match="has not reached the first checkpoint"):
        load(tmp_path)
    with pytest.raises(UserError, match="There is no run directory"):
        load(tmp_path / "absent")
