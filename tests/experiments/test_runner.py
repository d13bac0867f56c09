"""Reproductions: variants, the queue of trainings, summaries, and whole experiments at a tiny scale."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import pytest
from emorl.reproduce import run as reproduction
from emorl.reproduce import tables, variants
from emorl.reproduce.experiments import EXPERIMENTS, system_on
from emorl.reproduce.jobs import is_finished, train_missing
from emorl.reproduce.run import reproduce, runs_of, systems_of
from emorl.reproduce.trained import Trained, markdown, merged, summary
from emorl.reproduce.variants import SCALES, VARIANTS, Scale, canonical, variant

from conftest import Run
from emorl.errors import UserError
from emorl.models import build
from emorl.plots.lines import seed_chart, smoothed
from emorl.report.published import PUBLISHED_ARI, SYSTEMS, Published
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS
from emorl.training.trainer import train

TINY = "efficient-morl/tetrominoes-tiny"


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """A third scale: everything takes seconds."""
    names = ("tetrominoes", "multi-dsprites", "clevr6")
    scale = Scale(
        "tiny", dict.fromkeys(names, TINY), (0, 1), train={"steps": 12, "evaluate_every": 6, "log_every": 1}
    )
    monkeypatch.setitem(SCALES, "cpu", scale)
    small = {
        name: replace(run, data=replace(run.data, test_size=4, validation_size=4))
        for name, run in PRESETS.items()
    }
    monkeypatch.setattr(variants, "PRESETS", small)
    monkeypatch.setattr(reproduction, "PRESETS", small)


@pytest.mark.parametrize("scale", ["cpu", "paper"])
@pytest.mark.parametrize("name", VARIANTS)
def test_every_variant_can_be_built(name: str, scale: str) -> None:
    run = variant(name, scale=scale, dataset="tetrominoes", seed=3)  # type: ignore[arg-type]
    assert run.train.seed == 3
    build(run.model)
    same = canonical(name, scale=scale, dataset="tetrominoes")  # type: ignore[arg-type]
    assert variant(same, scale=scale, dataset="tetrominoes", seed=3) == run  # type: ignore[arg-type]


def test_what_several_figures_need_is_trained_once() -> None:
    assert canonical("I=1", scale="cpu", dataset="tetrominoes") == "full"
    assert canonical("L=3", scale="cpu", dataset="clevr6") == "full"
    assert canonical("I=1", scale="paper", dataset="tetrominoes") == "I=1"  # the paper trains with three


@pytest.mark.parametrize("scale", ["cpu", "paper"])
@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_knows_its_runs(name: str, scale: str) -> None:
    runs = runs_of(EXPERIMENTS[name], scale, Path("x"))  # type: ignore[arg-type]
    assert len({one.directory for one in runs}) == len(runs)
    assert {one.seed for one in runs} <= {0, 1, 2, 3, 4}


def test_table_1_has_a_row_for_every_model_there_is() -> None:
    labels = {label for label, _, _ in systems_of(EXPERIMENTS["table-1"], "paper", Path("x"))}
    assert {system_on(*key) for key in PUBLISHED_ARI} <= labels
    assert len(labels) == 3 * len(SYSTEMS)


def test_small_scales_take_the_fast_presets_there_are() -> None:
    """And those for Tetrominoes, once, where there is none."""
    labels = [one.label for one in runs_of(EXPERIMENTS["table-1"], "cpu", Path("x"))]
    assert labels[: len(SYSTEMS)] == [f"{title}, Tetrominoes" for title in SYSTEMS.values()]
    assert "Slot Attention, Multi-dSprites" in labels
    (one,) = runs_of(EXPERIMENTS["figure-9"], "cpu", Path("x"))
    assert one.directory == Path("x/cpu/presets/efficient-morl--tetrominoes-fast/seed-0")


def test_every_ablation_of_the_paper_is_a_row_of_ours() -> None:
    experiment = EXPERIMENTS["table-2"]
    assert set(experiment.published) <= set(experiment.variants)


def test_summary_and_table() -> None:
    rows = [{"label": "a", "seed": s, "ari": 0.9 + 0.02 * s, "mse": 1e-3} for s in (0, 1)]
    rows.append({"label": "b", "seed": 0, "ari": 0.5})
    entries = summary(rows, ("ari", "mse"))
    assert entries[0]["ari"] == {"mean": pytest.approx(0.91), "sd": pytest.approx(0.0141421, abs=1e-6)}
    assert "mse" not in entries[1]
    table = markdown(
        entries, ("ari", "mse"), {"a": {"ari": Published(0.95, 0.01)}, "c": {"ari": Published(0.1, 0)}}
    )
    assert table.splitlines() == [
        "|  | seeds | ARI | paper | MSE (1e-4) |",
        "|---|---|---|---|---|",
        "| a | 2 | 0.910 ± 0.014 | 0.950 ± 0.010 | 10.0 ± 0.0 |",
        "| b | 1 | 0.500 |  |  |",
        "| c |  |  | 0.100 ± 0.000 |  |",
    ]


def test_bands() -> None:
    points = [(float(step), 2.0) for step in range(100)]
    assert [value for _, value in smoothed(points)] == pytest.approx([2.0] * 100)
    figure = seed_chart({"one": {"x": [points, points[:50]]}, "two": {"y": [points]}})
    assert [axes.get_yscale() for axes in figure.axes] == ["linear", "log"]


@pytest.mark.usefixtures("tiny")
def test_experiments_train_measure_and_draw(tmp_path: Path) -> None:
    said: list[str] = []
    first = reproduce("figure-3", folder=tmp_path, jobs=2, say=said.append)
    assert "0 of 2 runs are trained" in said[0]
    assert [entry["seeds"] for entry in first["summary"]] == [2]
    assert {"kl_peak", "update_3_left"} <= set(first["rows"][0])
    assert json.loads((tmp_path / "cpu" / "figure-3.json").read_text()) == first
    assert (tmp_path / "cpu" / "figure-3.png").read_bytes().startswith(b"\x89PNG")
    said.clear()
    again = reproduce("figure-3", folder=tmp_path, say=said.append)
    assert len(said) == 1  # nothing was trained
    assert again == first


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> tuple[RunConfig, Path]:
    run, directory = PRESETS[TINY], tmp_path_factory.mktemp("runs") / "run"
    run = RunConfig(
        replace(run.model, num_steps=3),
        replace(run.data, test_size=4, validation_size=4),
        replace(run.train, steps=6, evaluate_every=3, log_every=1, curriculum=((0, 3),)),
    )
    train(run, directory)
    return run, directory


@pytest.mark.parametrize(
    "name",
    [
        "table-1",
        "table-2",
        "figure-2",
        "figure-5",
        "figure-6",
        "figure-7",
        "figure-8",
        "figure-9",
        "appendix-b",
    ],
)
def test_experiments_measure_and_draw(
    name: str, one_run: tuple[RunConfig, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run stands for all: what is tested is measuring and drawing."""
    experiment, (run, directory) = EXPERIMENTS[name], one_run
    some = [Trained(one.label, run, directory) for one in runs_of(experiment, "cpu", tmp_path)[:2]]
    monkeypatch.setattr(reproduction, "train_missing", lambda runs, **options: None)
    monkeypatch.setattr(reproduction, "runs_of", lambda *arguments: some)
    results = reproduce(name, folder=tmp_path, say=lambda message: None)
    assert set(results["summary"][0]) >= {"label", "seeds", experiment.scores[0]}
    assert (tmp_path / "cpu" / f"{name}.png").exists() == (experiment.draw is not None)


@pytest.mark.usefixtures("tiny")
def test_one_row_is_measured_again_and_others_stay(tmp_path: Path) -> None:
    first = reproduce("figure-8", folder=tmp_path, only="l=1", say=lambda message: None)
    assert [entry["label"] for entry in first["summary"]] == ["L=1"]
    path = tmp_path / "cpu" / "figure-8.json"
    earlier = json.loads(path.read_text())
    earlier["rows"][0]["ari"] = 0.123
    path.write_text(json.dumps(earlier))
    both = reproduce("figure-8", folder=tmp_path, only="L=0", say=lambda message: None)
    assert [entry["label"] for entry in both["summary"]] == ["L=0", "L=1"]  # in the table's order
    assert both["rows"][2]["ari"] == 0.123
    assert "L=0" in both["table"]
    assert not path.with_suffix(".png").exists()
    with pytest.raises(UserError, match="There are: L=0; L=1; L=2; L=3; L=4"):
        reproduce("figure-8", folder=tmp_path, only="L=7")


def test_rows_of_one_run_are_merged_by_its_label() -> None:
    """Figure 7 has several rows of each, whose labels begin with the run's."""
    earlier = [{"label": "I=1, as trained, I=3"}, {"label": "I=3, as trained, I=1"}, {"label": "gone"}]
    new = [{"label": "I=3, as trained, I=0"}]
    assert merged(new, earlier, ["I=1", "I=3"]) == [earlier[0], new[0]]


def test_table_1_takes_systems_that_must_iterate(tmp_path: Path) -> None:
    run = PRESETS["iodine/tetrominoes-tiny"]
    run = replace(run, data=replace(run.data, test_size=4), train=replace(run.train, steps=2, warm_up=1))
    train(run, tmp_path)
    (row,) = tables.decomposition([Trained("IODINE", run, tmp_path)])
    assert "ari" in row
    assert "ari_at_I=0" not in row


def test_a_directory_of_another_run_is_refused(tmp_path: Path) -> None:
    run = PRESETS[TINY]
    train_missing({tmp_path / "a": replace(run, train=replace(run.train, steps=2))}, say=lambda message: None)
    assert is_finished(tmp_path / "a", replace(run, train=replace(run.train, steps=2)))
    assert not is_finished(tmp_path / "a", run)  # longer: it would go on
    other = replace(run, model=replace(run.model, num_slots=9))
    with pytest.raises(UserError, match="model settings differ"):
        train_missing({tmp_path / "a": other}, say=lambda message: None)


def test_a_training_that_fails_is_named(tmp_path: Path) -> None:
    run = PRESETS[TINY]
    wrong = replace(run, data=replace(run.data, path=str(tmp_path / "nowhere")))
    with pytest.raises(UserError, match=r"The training in .*a failed .*holds no stored scenes"):
        train_missing({tmp_path / "a": wrong}, say=lambda message: None)


def test_stopping_stops_the_trainings_and_they_go_on(tmp_path: Path) -> None:
    script = (
        "from dataclasses import replace; from pathlib import Path; from emorl import PRESETS\n"
        "from emorl.reproduce.jobs import train_missing\n"
        f"run = PRESETS['{TINY}']; run = replace(run, train=replace(run.train, steps=100000))\n"
        "train_missing({Path('a'): run, Path('b'): run}, jobs=2)\n"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", script], cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE
    )
    deadline = time.monotonic() + 90
    while not all((tmp_path / name / "checkpoint.pt").exists() for name in "ab"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode != 0
    for name in "ab":
        assert "everything is saved" in (tmp_path / name / "train.log").read_text()
        assert (
            not is_finished(tmp_path / name, PRESETS[TINY])
            or (tmp_path / name / "weights.safetensors").exists()
        )


def test_reproduce_command(emorl: Run, tmp_path: Path) -> None:
    listed = emorl("reproduce")
    assert listed.returncode == 0, listed.stderr
    assert {line.split()[0] for line in listed.stdout.splitlines()} == set(EXPERIMENTS)
    wrong = emorl("reproduce", "figur-2")
    assert wrong.returncode == 2
    assert "figure-2" in wrong.stderr
    assert emorl("reproduce", "figure-2", "--jobs", 0).returncode == 2
    assert "name it" in emorl("reproduce", "all", "--only", "IODINE").stderr
