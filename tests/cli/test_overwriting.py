"""No command overwrites a file that it did not write itself, and inputs least of all; its own it replaces."""

from __future__ import annotations

import errno
import json
import os
import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from emorl.cli import main
from emorl.cli.decompose import FILES
from emorl.errors import UserError
from emorl.experiments.results import Result, Row
from emorl.files import MARK, check_output, is_ours
from emorl.plots.files import as_gif, save_chart, save_picture
from emorl.plots.lines import score_chart
from emorl.runs.directory import SCORES
from emorl.runs.pretrained import save_pretrained
from emorl.training.trainer import train
from tiny import TINY, tiny

PHOTO = Image.fromarray(np.random.default_rng(0).integers(0, 256, (35, 35, 3), dtype=np.uint8))


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    run = tiny(steps=2, evaluate_images=1, log_every=1)
    train(replace(run, data=replace(run.data, test_size=8)), directory)  # a release scores all of them
    return directory


@pytest.fixture
def run(trained: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return Path(shutil.copytree(trained, tmp_path / "run"))


def refused(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """Runs a command that must fail with one line, which is returned."""
    with pytest.raises(SystemExit) as stopped:
        main([str(word) for word in arguments])
    assert stopped.value.code == 2
    said = capsys.readouterr().err
    assert said.startswith("emorl: ")
    assert said.count("\n") == 1
    return said


def test_decompose_leaves_its_inputs_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    photo = Path("photos/a/overview.png")
    photo.parent.mkdir(parents=True)
    PHOTO.save(photo)
    PHOTO.save("photos/a.png")
    before = photo.read_bytes()
    assert "one of the inputs" in refused(capsys, "decompose", run, "photos/a.png", photo, "--out", "photos")
    Path("linked/a").mkdir(parents=True)
    os.link("photos/a.png", "linked/a/overview.png")
    assert "one of the inputs" in refused(capsys, "decompose", run, "photos/a.png", "--out", "linked")
    # not an input now, but not ours either
    assert "was not written by emorl" in refused(capsys, "decompose", run, "photos/a.png", "--out", "photos")
    assert photo.read_bytes() == before
    assert [path.name for path in photo.parent.iterdir()] == ["overview.png"]


@pytest.mark.parametrize(
    "arguments",
    [
        ["sweep", "steps", "saved", "--images", "1", "--values", "0", "--out", "saved/model.safetensors"],
        ["report", "saved", "--quick", "--images", "1", "--out", "saved/model.safetensors"],
        ["report", "saved", "--quick", "--images", "1", "--out", "saved/README.md"],
        ["export", "saved", "--format", "pt2", "--out", "saved/model.safetensors"],
        ["data", "preview", "folder", "--path", "photos", "--out", "photos/ours.png"],
        ["evaluate", "saved", "--data", "folder", "--path", "photos", "--picture", "photos/ours.png"],
        ["sweep", "steps", "saved", "--data", "folder", "--path", "photos", "--picture", "photos/ours.png"],
        ["figure", "posteriors", "folder-run", "--out", "photos/ours.png"],
        ["evaluate", "folder-run", "--picture", "link.png"],
    ],
    ids=" ".join,
)
def test_inputs_stay_even_if_emorl_wrote_them(
    arguments: list[str], run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    save_pretrained(run, "saved")
    Path("photos").mkdir()
    for number in range(9):
        save_picture(PHOTO, Path(f"photos/{number}.png"))
    save_picture(PHOTO, Path("photos/ours.png"))
    Path("link.png").symlink_to("photos/ours.png")
    config = json.loads((run / "config.json").read_text())
    config["data"] |= {"name": "folder", "path": os.path.abspath("photos"), "image_size": 35}
    shutil.copytree(run, "folder-run")
    Path("folder-run/config.json").write_text(json.dumps(config))
    capsys.readouterr()
    before = {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()}
    assert "one of the inputs" in refused(capsys, *arguments)
    assert {path: path.read_bytes() for path in Path().rglob("*") if path.is_file()} == before


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("content", ["notes", "[]", '{"mine": 1}'])
def test_scores_of_others_stay(content: str, run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (run / SCORES).write_text(content)
    main(["evaluate", str(run), "--images", "1"])
    told = capsys.readouterr()
    assert "ARI" in told.out
    assert told.err == f"emorl: {run / SCORES} holds no scores of emorl, so it is not overwritten: move it.\n"
    assert (run / SCORES).read_text() == content


def test_a_command_may_be_repeated(run: Path) -> None:
    PHOTO.save("a.png")
    for _ in range(2):
        main(["decompose", str(run), "a.png", "--out", "parts"])
    assert sorted(path.name for path in Path("parts/a").iterdir()) == sorted(FILES)
    for _ in range(2):
        main(["data", "preview", "tetrominoes", "--count", "1", "--out", "p.png"])
        options = ["--images", "1", "--values", "0", "1"]
        main(["sweep", "steps", str(run), *options, "--out", "deep/s.json", "--picture", "s.png"])
        main(["evaluate", str(run), "--images", "1", "--picture", "e.png"])


def test_results_of_one_picture_never_replace_those_of_another(
    run: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "b"):
        Path(name).mkdir()
        PHOTO.save(f"{name}/1.png")
    main(["decompose", str(run), "a/1.png", "--out", "parts"])
    capsys.readouterr()
    assert "holds the results of" in refused(capsys, "decompose", run, "b/1.png", "--out", "parts")


@pytest.mark.parametrize(
    "arguments",
    [
        ["figure", "curves", "RUN", "--out", "FILE.png"],
        ["figure", "posteriors", "RUN", "--out", "FILE.png"],
        ["report", "RUN", "--quick", "--images", "1", "--out", "FILE.html"],
        ["sweep", "steps", "RUN", "--images", "1", "--out", "FILE.json"],
        ["sweep", "steps", "RUN", "--images", "1", "--out", "run/config.json"],
        ["sweep", "steps", "RUN", "--images", "1", "--picture", "FILE.png"],
        ["evaluate", "RUN", "--images", "1", "--picture", "FILE.png"],
        ["data", "preview", "tetrominoes", "--out", "FILE.png"],
        ["release", "RUN", "FILE", "--preset", TINY, "--folder", "."],
        ["bench", TINY, "--quick", "--out", "folder"],
        ["bench", TINY, "--quick", "--out", "pictures"],
        ["reproduce", "table-1", "--scale", "tiny", "--out", "."],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_what_others_wrote_stays(
    arguments: list[str], run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"FILE.{suffix}" for suffix in ("png", "html", "json", "safetensors")]
    names += ["folder/bench.json", "pictures/bench.png", "tiny/table-1.json"]
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text('{"mine": 1}')
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    refused(capsys, *(str(run) if word == "RUN" else word for word in arguments))
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before


@pytest.mark.parametrize("suffix", ["png", "svg", "pdf"])
def test_charts_are_marked(suffix: str, tmp_path: Path) -> None:
    rows = [{"value": n, "ari": 0.5, "ari_error": 0.1} for n in range(2)]
    save_chart(score_chart({"": rows}, label="steps"), tmp_path / f"x.{suffix}")
    check_output(tmp_path / f"x.{suffix}")
    assert is_ours(tmp_path / f"x.{suffix}")


@pytest.mark.parametrize("suffix", ["png", "jpg", "gif"])
def test_pictures_are_marked(suffix: str, tmp_path: Path) -> None:
    save_picture(PHOTO, tmp_path / f"x.{suffix}")
    assert is_ours(tmp_path / f"x.{suffix}")
    with Image.open(tmp_path / f"x.{suffix}") as image:
        assert image.size == PHOTO.size


def test_what_is_ours(tmp_path: Path) -> None:
    (tmp_path / "x.gif").write_bytes(as_gif([PHOTO, PHOTO]))
    (tmp_path / "long").write_bytes(bytes(10**6) + MARK.encode())
    (tmp_path / "within").write_bytes(bytes(10**6) + MARK.encode() + bytes(10**6))
    (tmp_path / "dangling").symlink_to("nowhere")
    os.mkfifo(tmp_path / "pipe")
    assert is_ours(tmp_path / "x.gif")
    assert is_ours(tmp_path / "long")
    for name in ("within", "dangling", "pipe"):
        with pytest.raises(UserError, match="was not written by emorl"):
            check_output(tmp_path / name)
    check_output(tmp_path / "absent")
    with pytest.raises(UserError, match="is a folder"):
        check_output(tmp_path)


def test_results_may_be_measured_again(tmp_path: Path) -> None:
    from emorl.experiments.results import check_result

    result = Result("x", [Row("a", {})])
    Image.new("RGB", (2, 2)).save(tmp_path / "x.png")
    with pytest.raises(UserError, match=r"x\.png was not written"):
        check_result(tmp_path / "x.json")
    result.write(tmp_path / "x.json")
    check_result(tmp_path / "x.json")  # pictures beside a result are its own


def test_releases_stay_in_their_folder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("../x", "/x", "a//b", "a/.b", "", "a\nb"):
        assert "are named" in refused(capsys, "release", run, name, "--preset", TINY, "--folder", "f")
    for _ in range(2):
        main(["release", str(run), "a/v1.0", "--preset", TINY, "--folder", "f"])
    assert json.loads(Path("f/a/v1.0.json").read_text())["name"] == "a/v1.0"


@pytest.fixture
def read_only(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """Makes every file system read-only."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    def begin() -> None:
        monkeypatch.setattr("emorl.files.open", refuse, raising=False)
        for name in ("mkdir", "replace", "unlink", "rename"):
            monkeypatch.setattr(os, name, refuse)

    return begin


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "RUN", "--quick", "--images", "1", "--out", "r.html"],
        ["figure", "curves", "RUN", "--out", "c.png"],
        ["figure", "posteriors", "RUN", "--out", "c.gif"],
        ["data", "store", "tetrominoes", "--count", "2", "--workers", "1", "--out", "s"],
        ["sweep", "steps", "RUN", "--images", "1", "--values", "0", "--out", "s.json"],
        ["decompose", "RUN", "a.png", "--out", "parts"],
        ["release", "RUN", "a/b", "--preset", TINY, "--folder", "f"],
        ["train", TINY, "--out", "new"],
    ],
    ids=lambda arguments: " ".join(arguments[:2]),
)
def test_read_only_places_are_one_line(
    arguments: list[str], run: Path, read_only: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    PHOTO.save("a.png")
    read_only()
    with pytest.raises(SystemExit) as stopped:
        main([str(run) if word == "RUN" else word for word in arguments])
    assert stopped.value.code == 2
    lines = [line for line in capsys.readouterr().err.splitlines() if line.startswith("emorl: ")]
    assert len(lines) == 1
    assert re.match(rf"emorl: Cannot .*\b{arguments[-1]}\b.*: Read-only file system", lines[0])


@pytest.mark.filterwarnings("always")
def test_scores_are_printed_where_nothing_can_be_written(
    run: Path, read_only: Callable[[], None], capsys: pytest.CaptureFixture[str]
) -> None:
    read_only()
    main(["evaluate", str(run), "--images", "1", "--json"])
    told = capsys.readouterr()
    assert "ari" in json.loads(told.out)
    assert told.err.startswith("emorl: Cannot write")
    with pytest.raises(SystemExit):
        main(["evaluate", str(run), "--images", "1", "--json", "--picture", "p.png"])
    told = capsys.readouterr()
    assert "ari" in json.loads(told.out)
    assert told.err.count("emorl: Cannot write") == 2


def test_a_full_disk_leaves_the_last_picture(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_picture(PHOTO, tmp_path / "x.png")
    before = (tmp_path / "x.png").read_bytes()

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(UserError, match="No space left"):
        save_picture(Image.new("RGB", (9, 9)), tmp_path / "x.png")
    assert (tmp_path / "x.png").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["x.png"]
