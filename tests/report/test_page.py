"""Reports: what is said, and that a page needs nothing but itself."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, Visit, in_a_browser
from emorl.cli import main
from emorl.explorer.chromium import FLAGS
from emorl.files import write_json
from emorl.models import MODELS
from emorl.report.groups import Extent
from emorl.report.html import Page, render
from emorl.report.page import build_page
from emorl.runs.config import RunConfig
from emorl.runs.directory import CONFIG
from emorl.types import Progress
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

LOOK = """<!doctype html><meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:;
 style-src 'unsafe-inline'; script-src 'unsafe-inline'"><link rel="icon" href="data:,">
<iframe width="390" height="800" srcdoc="PAGE"></iframe><script>
onload = () => { const page = frames[0].document, root = page.documentElement, images = [...page.images];
const loaded = images.filter(image => image.naturalWidth > 0);
document.title = [root.scrollWidth - root.clientWidth, images.length, loaded.length]; }
</script>"""


def seen(page: str, folder: Path, look: str) -> subprocess.CompletedProcess[str]:
    """What a browser makes of a page in the frame of `look`, without any network."""
    (folder / "look.html").write_text(look.replace("PAGE", html.escape(page)), encoding="utf-8")
    options = [
        "--headless", *FLAGS, f"--user-data-dir={folder / 'profile'}",
        "--virtual-time-budget=5000", "--enable-logging=stderr", "--dump-dom",
    ]  # fmt: skip
    command = [CHROMIUM or "", *options, (folder / "look.html").as_uri()]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


@in_a_browser
def test_a_phone_shows_the_page_without_scrolling_sideways(page: str, tmp_path: Path) -> None:
    result = seen(page, tmp_path, LOOK)
    overflow, images, loaded = map(int, re.findall(r"<title>(\d+),(\d+),(\d+)", result.stdout)[0])
    assert overflow == 0
    assert images == loaded > 20
    assert [line for line in result.stderr.splitlines() if "CONSOLE" in line] == []


@pytest.fixture
def opened(page: str, tmp_path: Path, visit: Visit) -> Any:
    """The page from a file, in a browser that a script can steer."""
    (tmp_path / "report.html").write_text(page, encoding="utf-8")
    size = {"width": 390, "height": 844}
    window = visit((tmp_path / "report.html").as_uri(), viewport=size, color_scheme="dark")
    for kind in ("touch", "follow"):
        window.locator(f"figure.{kind}.ready").first.wait_for()
    return window


READ = "(one) => [...one.getContext('2d').getImageData(0, 0, one.width, one.height).data]"


@in_a_browser
def test_a_slot_is_lit_steps_are_flipped_and_traversals_follow(opened: Any) -> None:
    assert opened.evaluate("document.documentElement.scrollWidth") <= 390
    touch = opened.locator("figure.touch").first
    image, rebuilt = touch.locator("canvas").nth(0), touch.locator("canvas").nth(1)
    whole, first = image.evaluate(READ), rebuilt.evaluate(READ)
    slot = touch.locator("button").first
    slot.focus()
    lit = image.evaluate(READ)
    assert slot.get_attribute("aria-pressed") == "true"
    assert sum(lit) < sum(whole)  # all but the slot is darker
    slot.blur()
    assert image.evaluate(READ) == whole
    image.hover()
    assert touch.locator("button[aria-pressed=true]").count() == 1
    opened.mouse.move(2, 2)
    assert touch.locator("button[aria-pressed=true]").count() == 0
    assert touch.locator("output").inner_text().startswith("refined")
    touch.locator("input").press("Home")
    assert touch.locator("output").inner_text() == "layer 1"
    assert rebuilt.evaluate(READ) != first
    follow = opened.locator("figure.follow").first
    panel, slider = follow.locator("canvas").first, follow.locator("input").first
    pictures, values = [], []
    panel.scroll_into_view_if_needed()
    box = panel.bounding_box()
    for share in (0.02, 0.5, 0.98):
        opened.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2)
        pictures.append(tuple(panel.evaluate(READ)))
        values.append(int(slider.input_value()))
    assert values == sorted(set(values))
    assert len(set(pictures)) == 3
    controls = "[...document.querySelectorAll('button, input')]"
    assert opened.evaluate(f"{controls}.filter(e => !(e.ariaLabel || e.textContent.trim())).length") == 0


LONG = (
    "a-run-with-a-very-long-name-of-an-experiment-of-november",
    "another_run_with_a_long_name_without_hyphens",
)
LOOK_AT_TABLES = """<!doctype html><link rel="icon" href="data:,">
<iframe width="1280" height="800" srcdoc="PAGE"></iframe><script>
const tables = "figure.table:not(:has(details)) .scroll";
onload = () => { const all = [...frames[0].document.querySelectorAll(tables)];
document.title = [all.length, ...all.map(one => one.scrollWidth - one.clientWidth)]; }
</script>"""


@pytest.fixture(scope="module")
def long_page(two_runs: list[Path], tmp_path_factory: pytest.TempPathFactory) -> str:
    """Of two configurations with long names, one of which was stopped."""
    folder = tmp_path_factory.mktemp("long")
    for run, name in zip(two_runs, LONG, strict=True):
        shutil.copytree(run, folder / name)
    config = RunConfig.read(folder / LONG[0] / CONFIG)
    write_json(folder / LONG[0] / CONFIG, config.with_steps(99).to_dict())
    runs = [str(folder / name) for name in LONG]
    main(["report", *runs, "--out", str(folder / "r.html"), "--images", "2", "--quick"])
    return (folder / "r.html").read_text(encoding="utf-8")


def test_a_stopped_training_is_told_with_its_step(long_page: str) -> None:
    assert f"{LONG[0]} was stopped at step 12 of 99" in long_page
    assert "<td>12 of 99</td><td>12</td>" in re.sub(r">\s+<", "><", long_page)


@in_a_browser
def test_long_names_and_all_columns_fit_into_a_window(long_page: str, tmp_path: Path) -> None:
    count, *cut = map(
        int, re.findall(r"<title>([\d,]+)", seen(long_page, tmp_path, LOOK_AT_TABLES).stdout)[0].split(",")
    )
    assert count >= 2
    assert cut == [0] * count
    for name in LONG:
        assert long_page.count(f'<th scope="row">{name}</th>') == 1
