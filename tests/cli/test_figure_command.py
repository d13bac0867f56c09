"""emorl figure and emorl report"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from PIL import Image
from PIL.GifImagePlugin import GifImageFile

from emorl.cli import main
from emorl.cli.report import command_line
from pages import check_page, sections_of
from toys import SHIPPED, two_seeds


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return two_seeds(tmp_path_factory.mktemp("runs"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["report", "--out", "r.html"], "Name at least one run"),
        (["report", ".", "--out", "r.html"], "is not a run directory: it has no config.json"),
        (["report", SHIPPED, "absent", "--out", "r.html"], "no run directory and no released model 'absent'"),
        (["report", "A", "A/", "--out", "r.html"], "is named twice"),
        (["report", "A", "--images", "0", "--out", "r.html"], "--images must be at least 1"),
        (["figure", "curves", SHIPPED, "--out", "c.png"], "has no metrics.jsonl"),
        (["figure", "curves", "--out", "c.png"], "Name at least one run"),
        (["figure", "posteriors", "A", "A", "--out", "c.png"], "is of one run, not of 2"),
        (["figure", "posteriors", "A", "--scene", "320", "--out", "c.png"], "There is no scene 320"),
        (["figure", "posteriors", "A", "--out", "c.xyz"], "Cannot write c.xyz"),
        (["figure", "activeness", "A", "--scenes", "1", "--out", "c.xyz"], "Cannot write c.xyz"),
        (["figure", "traversals", "A", "--dims", "8", "--out", "c.png"], "There is no dimension 8"),
        (["figure", "decompositions", "A", "--scenes", "0", "--out", "c.png"], "--scenes must be at least 1"),
    ],
)  # fmt: skip
def test_mistakes_get_one_clear_line(
    arguments: list[str],
    message: str,
    two_runs: list[Path],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "A").symlink_to(two_runs[1])
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_figures_and_reports_from_the_command_line(
    tmp_path: Path, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    made = emorl("report", SHIPPED, "--quick", "--images", 4, "--out", "r.html")
    assert made.returncode == 0, made.stderr
    assert "Wrote r.html" in made.stderr
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    check_page(page)
    assert "learning" not in sections_of(page)  # released weights have no metrics
    assert "train efficient-morl/tetrominoes" in page
    drawn = emorl("figure", "traversals", SHIPPED, "--dims", 5, 1, "--scenes", 4, "--out", "t.gif")
    assert drawn.returncode == 0, drawn.stderr
    with Image.open(tmp_path / "t.gif") as gif:
        assert isinstance(gif, GifImageFile)
        assert gif.n_frames == 30


def test_a_report_says_how_it_is_made_again() -> None:
    unusual = command_line(["runs/a b"], Path("r.html"), images=4, dci="no", split="train", quick=True)
    assert unusual == "emorl report 'runs/a b' --out r.html --images 4 --split train --quick"
    usual = command_line(["a", "b"], Path("r.html"), images=None, dci="fast", split="test", quick=False)
    assert usual == "emorl report a b --out r.html --dci fast"


@pytest.mark.parametrize(
    ("arguments", "width"),
    [
        (["decompositions", "RUN", "--scenes", "2", "--worst"], 7 * 109),
        (["posteriors", "RUN"], 7 * 109),
        (["traversals", "RUN", "--dims", "0", "3", "--slot", "1", "--scenes", "4"], 9 * 109),
        (["traversals", "RUN", "--scenes", "1"], 9 * 109),
        (["curves", "RUN"], 900),
        (["activeness", "RUN", "--scenes", "1"], 400),
    ],
)
def test_every_figure_can_be_drawn(
    arguments: list[str],
    width: int,
    two_runs: list[Path],
    tmp_path: Path,
) -> None:
    out = tmp_path / "deep" / "figure.png"
    main(["figure", *(str(two_runs[0]) if word == "RUN" else word for word in arguments), "--out", str(out)])
    with Image.open(out) as picture:
        assert picture.width > width


def test_scenes_of_several_models_stand_one_below_the_other(two_runs: list[Path], tmp_path: Path) -> None:
    heights = []
    for runs in ([two_runs[0]], [two_runs[0], SHIPPED]):
        out = tmp_path / f"{len(runs)}.png"
        main(["figure", "decompositions", *map(str, runs), "--scenes", "2", "--out", str(out)])
        with Image.open(out) as picture:
            heights.append(picture.height)
    assert heights[1] == 2 * heights[0]


def test_the_importance_matrix_can_be_drawn(tmp_path: Path) -> None:
    out = tmp_path / "dci.svg"
    main(["figure", "dci", SHIPPED, "--scenes", "12", "--out", str(out)])
    assert "shape" in out.read_text()
