"""Reports: what is said, and that a page needs nothing but itself."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path

import pytest

from emorl.cli import main
from emorl.evaluation.sweeps import Progress
from emorl.models import MODELS
from emorl.report.groups import Extent
from emorl.report.html import Page, render
from emorl.report.page import build_page
from pages import check_page, sections_of
from toys import Greys, Toy, toy_run, two_seeds


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    return two_seeds(tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def page(two_runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    out = tmp_path_factory.mktemp("pages") / "deep" / "report.html"
    main(["report", *map(str, two_runs), "--out", str(out), "--images", "3"])
    return out.read_text(encoding="utf-8")


def test_a_report_is_whole_and_needs_nothing_else(page: str) -> None:
    checker = check_page(page)
    assert len(checker.images) > 20
    assert len(page) < 6_000_000


def test_a_report_of_two_seeds_says_it_all(page: str) -> None:
    assert sections_of(page) == [
        "paper", "scenes", "runs", "learning", "inference", "latents", "steps", "settings", "again"
    ]  # fmt: skip
    for text in [
        "EfficientMORL on Tetrominoes", "standard deviation over 2 training seeds", "paper: 0.982 ± 0.018",
        "mean ± sd", "Validation ARI", "layer 1", "refined 1", "train.steps", "--train.seed 1", "Slot Attention",
    ]:  # fmt: skip
        assert text in page, text


def test_names_are_text_not_markup(page: str) -> None:
    assert "&lt;b&gt;&amp;" in page
    assert "<b>" not in page


def test_what_differs_from_the_preset_is_marked(page: str) -> None:
    marked = re.findall(
        r'<tr class="marked">\s*<th scope="row">([\w.]+)</th><td>(.*?)</td><td>(.*?)</td>', page
    )
    assert ("train.steps", "12", "20") in marked
    assert not any(name == "train.seed" for name, _, _ in marked)


def test_sections_without_data_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that does not iterate, images without masks, a training without metrics, a data set of no paper."""
    monkeypatch.setitem(MODELS, "toy", Toy)
    stages: list[str] = []

    def stage(title: str) -> nullcontext[Progress]:
        stages.append(title)
        return nullcontext(lambda done, total: None)

    with pytest.warns(UserWarning, match="no DCI of a"):
        page = build_page(
            [(toy_run(), Greys())], Extent(dci="fast"), stage=stage, commands=["emorl"], footer=""
        )
    assert [section.name for section in page.sections] == [
        "scenes",
        "runs",
        "inference",
        "latents",
        "settings",
        "again",
    ]
    assert [tile.title for tile in page.tiles] == ["MSE (× 10⁻⁴)", "Slots used"]
    assert page.title == "toy on greys"
    assert stages[0] == "scoring a"
    check_page(render(page))


def test_a_page_escapes_everything() -> None:
    text = render(Page("<i>", "<i>", "<i>", [], "<i>", [], "<i>"))
    assert "<i>" not in text
    assert text.count("&lt;i&gt;") == 7  # the title and the kicker name the window too


# The browser

BROWSER = shutil.which("chromium") or shutil.which("google-chrome")
LOOK = """<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'; script-src 'unsafe-inline'"><link rel="icon" href="data:,">
<iframe width="390" height="800" srcdoc="PAGE"></iframe><script>
onload = () => { const page = frames[0].document, root = page.documentElement, images = [...page.images];
const loaded = images.filter(image => image.naturalWidth > 0);
document.title = [root.scrollWidth - root.clientWidth, images.length, loaded.length]; }
</script>"""


@pytest.mark.skipif(BROWSER is None, reason="no browser")
def test_a_phone_shows_the_page_without_scrolling_sideways(page: str, tmp_path: Path) -> None:
    (tmp_path / "look.html").write_text(LOOK.replace("PAGE", html.escape(page)), encoding="utf-8")
    options = [
        "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking",
        "--disable-component-update", "--disable-sync", f"--user-data-dir={tmp_path / 'profile'}",
        "--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom",
    ]  # fmt: skip
    command = [BROWSER or "", *options, (tmp_path / "look.html").as_uri()]
    result = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    overflow, images, loaded = map(int, re.findall(r"<title>(\d+),(\d+),(\d+)", result.stdout)[0])
    assert overflow == 0
    assert images == loaded > 20
    assert [line for line in result.stderr.splitlines() if "CONSOLE" in line] == []
