"""Wrong command lines: one line or tyro's own words, exit status 2, and nothing is written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from emorl.cli import main
from emorl.training.trainer import train
from tiny import TINY, tiny

BEYOND = 2**64  # the first number that is no seed
MOST_SECONDS = 10  # a wrong line fails before anything is computed

# Words are split at spaces.
LINES = [
    *(f"evaluate RUN {wrong}" for wrong in (
        "--slots 0", "--slots -1", "--slots 100000", "--slots 1e3", "--steps -1", "--steps 100000", "--images 0",
        "--images -1", "--images x", "--tries 0", "--tries -3", "--tries 10000000", "--seeds 0", "--seeds -1",
        "--seeds 100000000", "--seed -1", f"--seed {BEYOND}", f"--seed {BEYOND - 1} --seeds 2", "--dci maybe",
        "--split all", "--picture .", "--picture RUN/config.json", "--nonsense",
    )),
    "evaluate", "evaluate absent", "evaluate RUN RUN", "evaluate .",
    *(f"decompose RUN photo.png --out o {wrong}" for wrong in (
        "--slots 0", "--slots 100000", "--steps -1", "--steps 1000000", "--tries 0", "--seed -1", f"--seed {BEYOND}",
        "--sample maybe",
    )),
    "decompose RUN --out o", "decompose RUN photo.png", "decompose RUN absent.png --out o", "decompose RUN . --out o",
    *(f"sweep steps RUN {wrong}" for wrong in (
        "--values -1", "--values 1 x", "--values 100000", "--slots 0", "--slots 100000", "--images 0", "--images -1",
        "--seeds 0", "--seeds 100000000", "--data cats", "--data clevr6", "--out .", "--picture .",
    )),
    "sweep slots RUN --values 0", "sweep slots RUN --values 100000", "sweep stability RUN --seeds 1 --images 1",
    "sweep stability RUN --images 0", "sweep objects RUN --images -1", "sweep colours RUN", "sweep steps",
    *(f"figure traversals RUN --out f.png {wrong}" for wrong in (
        "--slot 9", "--slot -1", "--slot 100000", "--dims 8", "--dims -1", "--scenes 0", "--scenes -1", "--scene 320",
        "--scene -1", "--seed -1", f"--seed {BEYOND}", "--split x",
    )),
    "figure traversals RUN --out .", "figure posteriors RUN RUN --out f.png", "figure curves --out f.png",
    "figure moods RUN --out f.png", "figure posteriors RUN", "figure curves RUN --out f.xyz",
    "report --out r.html", "report RUN --out .", "report RUN --out r.html --images 0", "report RUN RUN --out r.html",
    "report RUN --out r.html --images -1", "report RUN --out r.html --dci x", "report RUN",
    *(f"bench {TINY} --quick --out b {wrong}" for wrong in (
        "--sizes 4", "--sizes -1", "--sizes 100000", "--batch-sizes 0", "--batch-sizes 100000000", "--steps -1",
        "--steps 100000", "--repeats 0", "--repeats -1", "--repeats 100000000", "--threads 0", "--threads 100000",
        "--device tpu",
    )),
    "bench cats --quick --out b",
    "reproduce table-9", "reproduce table-1 --jobs 0", "reproduce table-1 --jobs -1", "reproduce table-1 --jobs 100000",
    "reproduce all --only x", "reproduce table-1 --scale tiny --only nonsense", "reproduce --docs",
    "reproduce table-1 --scale tiny --publish-here", "reproduce table-1 --publish-here", "reproduce table-1 --scale x",
    *(f"export RUN --format pt2 --out m.pt2 {wrong}" for wrong in (
        "--steps -1", "--steps 100000", "--slots 0", "--part encode", "--part decode --steps 1", "--bits 16",
    )),
    "export", "export RUN --format onnx", "export RUN --out m.onnx", "export absent --format pt2 --out m.pt2",
    "export RUN --format tflite --out m.tflite", "export RUN --format pt2 --out .",
    "export RUN --format pt2 --out photo.png", "export RUN --format onnx --out RUN/config.json",
    "release RUN a/b", "release absent a/b --preset x", "release efficient-morl/tetrominoes a/b --preset x",
    "release RUN ../b --preset x", "release RUN a/b --preset cats --folder f",
    *(f"train {TINY} --out t {wrong}" for wrong in (
        "--train.steps 0", "--train.steps -1", "--train.steps 1e99", "--train.batch-size 0", "--train.seed -1",
        f"--train.seed {BEYOND}", "--train.learning-rate nan", "--train.learning-rate -1", "--train.max-grad-norm inf",
        "--train.num-steps -1", "--train.devices 0", "--train.precision 8", "--model.num-slots 0",
        "--model.num-slots -1", "--model.image-size 0", "--model.image-size -5", "--model.image-size 64",
        "--data.seed -1", f"--data.seed {BEYOND}", "--data.train-size 0", "--data.test-size -1", "--data.name cats",
        "--data.name folder", "--data.path absent", "--train.stepz 3",
    )),
    "train", "train cats", "train absent.json", "train photo.png", "train .",
    *(f"data store tetrominoes --out s {wrong}" for wrong in (
        "--count 0", "--count -1", "--count 100000000000000", "--seed -1", f"--seed {BEYOND}", "--workers 0",
        "--workers 100000",
    )),
    *(f"data preview tetrominoes --out p.png {wrong}" for wrong in (
        "--count 0", "--count -1", "--count 100000000000000", "--seed -1", f"--seed {BEYOND}", "--path .",
    )),
    "data preview folder --out p.png", "data preview cats --out p.png", "data", "data paint", "data store cats --out s",
    "data convert absent --as tetrominoes --out s", "data convert photo.png --as tetrominoes --out s",
    "data convert photo.png --as tetrominoes --out s --limit 0", "data convert . --as tetrominoes --out s",
    "decompose RUN loop.png --out o", "decompose RUN photo.png loop.png --out o", "evaluate loop.png",
    "evaluate RUN --data folder --path loop.png", "report loop.png --out r.html", "report RUN --out loop.png",
    "data preview folder --path . --out loop.png", "data preview folder --path loop.png --out p.png",
    "explore absent", "explore .", "explore --port -1", "explore --port 70000", "explore --device tpu",
    "list cats", "list all models", "paint", "--nonsense",
]  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    train(tiny(steps=2, evaluate_images=1, log_every=1), directory)
    return directory


def has_box(told: str) -> bool:
    """Whether tyro has spoken: a title above a line, and where help is to be had."""
    return ("----" in told or "────" in told) and "--help" in told


@pytest.mark.parametrize(
    "line",
    [
        "evaluate RUN",
        "decompose RUN photo.png --out o",
        "sweep objects RUN",
        "export RUN --out m.onnx --format onnx",
    ],
)
def test_too_many_slots_are_refused_and_not_tried(
    line: str, trained: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Where memory ends would be no limit: another machine has more."""
    with pytest.raises(SystemExit):
        main([str(trained) if word == "RUN" else word for word in f"{line} --slots 100000".split()])
    assert capsys.readouterr().err == "emorl: --slots must be at most 1000, not 100000.\n"


@pytest.mark.parametrize("line", LINES)
def test_a_wrong_line_is_answered_in_one(
    line: str,
    trained: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "photo.png").write_text("not a picture")
    (tmp_path / "RUN").symlink_to(trained)
    (tmp_path / "loop.png").symlink_to("loop.png")
    before = sorted(trained.iterdir())
    started = time.process_time()
    with pytest.raises(SystemExit) as stopped:
        main(line.split())
    told = capsys.readouterr()
    assert stopped.value.code == 2, told.err
    assert "Traceback" not in told.err
    lines = told.err.splitlines()
    assert (len(lines) == 1 and lines[0].startswith("emorl: ")) or has_box(told.err), told.err
    assert time.process_time() - started < MOST_SECONDS
    assert sorted(path.name for path in tmp_path.iterdir()) == ["RUN", "loop.png", "photo.png"]
    assert sorted(trained.iterdir()) == before
