"""Running experiments: what they train, the queue of trainings, and whole experiments at a tiny scale."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from conftest import Run as Command
from emorl.data import DATASETS
from emorl.errors import UserError
from emorl.experiments import EXPERIMENTS, comparison, queue, runner, table_1
from emorl.experiments.base import BLENDER, Job
from emorl.experiments.queue import is_finished, train_missing
from emorl.experiments.results import Result
from emorl.experiments.runner import find, labels_of, reproduce
from emorl.experiments.scales import GECO, SCALES, ScaleName, Wanted, changed, system_on
from emorl.experiments.table_2 import FIXED, FULL
from emorl.files import write_json
from emorl.models import build
from emorl.report.paper import PUBLISHED_ABLATIONS, PUBLISHED_ARI, SYSTEMS
from emorl.runs.config import RunConfig
from emorl.runs.presets import PRESETS
from emorl.runs.run import Run
from emorl.schedules import Schedule
from emorl.training.trainer import train
from forks import Fork, context

TINY = "efficient-morl/tetrominoes-tiny"
TRAINED = [name for name, experiment in EXPERIMENTS.items() if experiment.runs("cpu")]


@pytest.fixture
def forked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trainings of the queue begin as forks, sooner than it starts them."""

    def start(directory: Path, config: RunConfig, *, is_alone: bool) -> Fork:
        directory.mkdir(parents=True, exist_ok=True)
        write_json(directory / queue.WANTED, config.to_dict())
        words = ["train", directory / queue.WANTED, "--out", directory, "--resume"]
        return Fork(words, directory, directory / queue.LOG, directory / queue.LOG)

    monkeypatch.setattr(queue, "start", start)


def quiet(message: str) -> None:
    """Says nothing."""


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("name", TRAINED)
def test_every_run_can_be_built(name: str, scale: ScaleName) -> None:
    wanted = EXPERIMENTS[name].runs(scale)
    assert len({(one.label, one.seed) for one in wanted}) == len(wanted)
    assert {one.seed for one in wanted} <= {0, 1, 2, 3, 4}
    for one in {one.config.model: one for one in wanted}.values():
        build(one.config.model)


def run_of(name: str, label: str, seed: int = 0, scale: ScaleName = "cpu") -> Wanted:
    (found,) = [one for one in find(name).runs(scale) if (one.label, one.seed) == (label, seed)]
    return found


def test_what_several_experiments_need_is_trained_once() -> None:
    place = run_of("table-2", FIXED).place(Path())
    for name, label in (
        ("figure-8", "L=3"),
        ("figure-2", "I=1"),
        ("levers", "baseline"),
    ):
        assert run_of(name, label).place(Path()) == place
    for other in (run_of("table-2", FIXED, seed=1), run_of("table-2", FULL), run_of("figure-8", "L=2")):
        assert other.place(Path()) != place
    watched = changed(run_of("table-2", FIXED), {"config.train.evaluate_every": 7})
    assert watched.place(Path()) == place  # how it is watched changes nothing


def test_the_full_model_of_table_2_has_geco() -> None:
    assert run_of("table-2", FULL).config.model.objective.geco.target == "auto"
    assert run_of("table-2", FULL, scale="paper").config == replace(
        PRESETS["efficient-morl/tetrominoes-paper"],
        train=replace(PRESETS["efficient-morl/tetrominoes-paper"].train, seed=0),
    )
    assert run_of("table-2", FIXED).config.model.objective.geco.target is None
    full, off = (run_of("table-2", label).config.flat() for label in (FULL, "GECO off"))
    assert {name for name in full if full[name] != off[name]} <= {name for name in GECO if ".geco." in name}


def test_table_1_has_a_row_for_every_model_there_is() -> None:
    labels = labels_of("table-1", "paper")
    assert {system_on(*key) for key in PUBLISHED_ARI} <= set(labels)
    assert len(labels) == 3 * len(SYSTEMS)


def test_small_scales_take_the_fast_presets_there_are() -> None:
    """And those for Tetrominoes, once, where there is none."""
    labels = labels_of("table-1", "cpu")
    assert labels[: len(SYSTEMS)] == [f"{title}, Tetrominoes" for title in SYSTEMS.values()]
    assert "Slot Attention, Multi-dSprites" in labels
    (one,) = find("figure-9").runs("cpu")
    assert one.config == PRESETS["efficient-morl/clevr6-long"]
    assert {"EfficientMORL, CLEVR6", "EfficientMORL (long), CLEVR6"} <= set(labels)


def test_released_weights_stand_for_the_training_that_made_them() -> None:
    wanted = {one.label: one for one in find("table-1").runs("cpu")}
    assert wanted["EfficientMORL, CLEVR6"].weights == "efficient-morl/clevr6"
    assert changed(wanted["EfficientMORL, CLEVR6"], {"config.train.steps": 7}).weights is None
    assert wanted["EfficientMORL, Tetrominoes"].weights == "efficient-morl/tetrominoes"


def test_every_ablation_of_the_paper_on_tetrominoes_is_a_row_of_ours() -> None:
    published = EXPERIMENTS["table-2"].published
    assert set(published) <= set(labels_of("table-2", "cpu"))
    theirs = [values for (_, data), values in PUBLISHED_ABLATIONS.items() if data == "tetrominoes"]
    assert sorted(map(str, published.values())) == sorted(map(str, theirs))


def test_dotted_changes_reach_groups_within_groups() -> None:
    run = changed(PRESETS[TINY], {"model.objective.geco.target": "auto", "train.steps": 3})
    assert (run.model.objective.geco.target, run.train.steps) == ("auto", 3)
    assert run.model.objective.geco.rate == PRESETS[TINY].model.objective.geco.rate


def test_experiments_train_measure_and_draw(tmp_path: Path) -> None:
    said: list[str] = []
    first = reproduce("figure-3", scale="tiny", folder=tmp_path, jobs=2, say=said.append)
    assert "0 of 1 runs are trained" in said[0]
    (row,) = first.rows
    assert {"kl_peak", "update_3_left"} <= set(row.values)
    assert (row.steps, row.seed) == (12, 0)
    assert first.stamp["commit"]
    written = Result.read(tmp_path / "tiny" / "figure-3.json")
    assert written.rows[0].values == row.values
    assert written.rows[0].config == row.config
    assert (tmp_path / "tiny" / "figure-3.png").read_bytes().startswith(b"\x89PNG")
    assert not list(tmp_path.rglob("*.partial.json"))
    said.clear()
    again = reproduce("figure-3", scale="tiny", folder=tmp_path, say=said.append)
    assert len(said) == 1  # nothing was trained
    assert again.rows == first.rows


@pytest.fixture(scope="module")
def one_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    run, directory = PRESETS[TINY], tmp_path_factory.mktemp("runs") / "run"
    run = RunConfig(
        replace(run.model, num_steps=3),
        replace(run.data, test_size=40, validation_size=4),
        replace(run.train, steps=6, evaluate_every=3, log_every=1, num_steps=Schedule.parse(3)),
    )
    train(run, directory)
    return directory


def drawn_elsewhere(path: Path) -> None:
    """A file like that of Blender's scenes, with one grey square in each of two pictures."""
    masks = np.zeros((2, 192, 192), np.uint8)
    masks[:, 50:90, 60:100] = 1
    np.savez(path, images192=np.repeat(masks[..., None] * 100, 3, axis=-1), masks=masks)


@pytest.mark.filterwarnings("ignore:The number of unique classes")  # of table 3: there are few objects
@pytest.mark.parametrize("name", TRAINED)
def test_experiments_measure_and_draw(
    name: str, one_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One run stands for all: what is tested is measuring and drawing."""
    experiment = EXPERIMENTS[name]
    monkeypatch.setitem(EXPERIMENTS, name, replace(experiment, runs=lambda scale: experiment.runs(scale)[:2]))
    monkeypatch.setattr(runner, "train_missing", lambda runs, **options: None)
    monkeypatch.setattr(Wanted, "place", lambda self, folder: one_run)
    monkeypatch.setattr(comparison, "peak_memory", lambda passes: [2**20])
    drawn_elsewhere(tmp_path / BLENDER)
    result = reproduce(name, scale="tiny", folder=tmp_path, files=tmp_path, say=quiet)
    assert set(result.rows[0].values) >= set(experiment.scores) - {"ari_with_background"}
    assert all(row.config is not None and row.scenes for row in result.rows)
    assert bool(list((tmp_path / "tiny").glob(f"{name}*.png"))) == (experiment.draw is not None)


@pytest.mark.parametrize("name", ["datasets", "scenes", "denormals", "figure-10"])
def test_experiments_without_trainings(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("datasets", "scenes"):
        few = {key: DATASETS[key] for key in ("tetrominoes", "clevr6-fast")}
        monkeypatch.setattr(f"emorl.experiments.{module}.DATASETS", few)
    result = reproduce(name, scale="tiny", folder=tmp_path, say=quiet)
    assert len(result.rows) == 2
    sections = EXPERIMENTS[name].sections
    assert sections is None or all(result.rows[0].label in text for text in sections(result).values())


@pytest.mark.usefixtures("forked")
def test_one_row_is_measured_again_and_others_stay(tmp_path: Path) -> None:
    first = reproduce("figure-8", scale="tiny", folder=tmp_path, only="l=1", say=quiet)
    assert [row.label for row in first.rows] == ["L=1"]
    path = tmp_path / "tiny" / "figure-8.json"
    (row,) = first.rows
    replace(first, rows=[replace(row, values={"ari": 0.123})], stamp={"commit": "earlier"}).write(path)
    both = reproduce("figure-8", scale="tiny", folder=tmp_path, only="L=0", say=quiet)
    assert [row.label for row in both.rows] == ["L=0", "L=1"]  # in the table's order
    assert both.rows[1].values == {"ari": 0.123}
    assert [both.stamp_of(row)["commit"] == "earlier" for row in both.rows] == [False, True]
    assert not path.with_suffix(".png").exists()
    with pytest.raises(UserError, match="There are: L=0; L=1; L=2; L=3; L=4"):
        reproduce("figure-8", scale="tiny", folder=tmp_path, only="L=7")


def test_table_1_takes_systems_that_must_iterate(tmp_path: Path) -> None:
    run = PRESETS["iodine/tetrominoes-tiny"]
    run = replace(run, data=replace(run.data, test_size=4), train=replace(run.train, steps=2))
    train(run, tmp_path / "run")
    (row,) = table_1.measure(Job([Run.open(tmp_path / "run", label="IODINE")]))
    assert {"ari", "kl"} <= set(row.values)
    assert "ari_without_refinement" not in row.values


def test_a_record_of_the_past_is_not_measured_again(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="a record of the past"):
        reproduce("exploration", folder=tmp_path)


# The queue


@pytest.mark.usefixtures("forked")
def test_a_directory_of_another_run_is_refused(tmp_path: Path) -> None:
    run = PRESETS[TINY]
    short = run.with_steps(2)
    train_missing({tmp_path / "a": short}, say=quiet)
    assert is_finished(tmp_path / "a", short)
    assert not is_finished(tmp_path / "b", short)
    for other in (run, replace(short, train=replace(short.train, learning_rate=Schedule.parse(1)))):
        with pytest.raises(UserError, match="holds a run with other settings"):
            train_missing({tmp_path / "a": other}, say=quiet)


@pytest.mark.usefixtures("forked")
def test_a_training_that_fails_is_named(tmp_path: Path) -> None:
    run = PRESETS[TINY]
    wrong = replace(run, data=replace(run.data, path=str(tmp_path / "nowhere")))
    with pytest.raises(UserError, match=r"The training in .*a failed .*holds no stored scenes"):
        train_missing({tmp_path / "a": wrong}, say=quiet)


def train_two(folder: Path, run: RunConfig) -> None:
    """What the process of the next test does."""
    os.chdir(folder)
    train_missing({Path("a"): run, Path("b"): run}, jobs=2, say=quiet)


def test_stopping_stops_the_trainings_and_they_go_on(tmp_path: Path) -> None:
    run = PRESETS[TINY].with_steps(100_000)
    process = context.Process(target=train_two, args=(tmp_path, run))
    process.start()
    deadline = time.monotonic() + 90
    while not all((tmp_path / name / "checkpoint.pt").exists() for name in "ab"):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    process.terminate()
    process.join(60)
    assert process.exitcode not in (None, 0)
    for name in "ab":
        assert "everything is saved" in (tmp_path / name / "train.log").read_text()
        assert not is_finished(tmp_path / name, run)
        done = Run.open(tmp_path / name).steps_done
        assert 0 < done < 100_000


def test_reproduce_command(emorl: Command, tmp_path: Path) -> None:
    listed = emorl("reproduce")
    assert listed.returncode == 0, listed.stderr
    assert {line.split()[0] for line in listed.stdout.splitlines()} == set(EXPERIMENTS)
    wrong = emorl("reproduce", "figur-2")
    assert wrong.returncode == 2
    assert "figure-2" in wrong.stderr
    assert emorl("reproduce", "figure-2", "--jobs", 0).returncode == 2
    assert "name it" in emorl("reproduce", "all", "--only", "IODINE").stderr
    assert "go to a checkout" in emorl("reproduce", "--docs").stderr


@pytest.mark.slow
def test_photographs_are_cut_trained_on_and_drawn(tmp_path: Path) -> None:
    result = reproduce("photographs", scale="tiny", folder=tmp_path, say=quiet)
    assert [row.label for row in result.rows] == ["coins", "six photographs"]
    for row in result.rows:
        assert row.config is not None
        assert row.config["data"]["path"] is None  # which is good on one machine only
    assert len(list((tmp_path / "tiny" / "windows" / "coins").iterdir())) == 40
    assert (tmp_path / "tiny" / "photographs-coins.png").exists()
