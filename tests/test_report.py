"""Figures and reports: what is drawn, what is said, and that a page needs nothing but itself."""

from __future__ import annotations

import html
import io
import re
import shutil
import subprocess
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

import emorl.cli.train
from emorl.cli import main
from emorl.cli.reports import display_names, nearest_preset, open_run, train_command_of
from emorl.data import DataConfig, open_dataset
from emorl.data.base import Arrays, DatasetInfo, SceneDataset
from emorl.errors import UserError
from emorl.evaluation.activeness import widest
from emorl.evaluation.evaluate import Scores
from emorl.models import build
from emorl.models.base import Model
from emorl.plots.lines import Course, panels_of, series, training_curves
from emorl.plots.maps import activeness_map, importance_matrix
from emorl.plots.panels import GAP, Panels, palette
from emorl.plots.pictures import scene_panels, worst_scenes
from emorl.plots.posteriors import posterior_panels, posterior_row, posteriors, step_names
from emorl.plots.style import blank, literal, svg_of
from emorl.plots.traversals import Traversal, as_gif, most_salient, traversal_frames, traverse
from emorl.report.html import Page, render
from emorl.report.page import build_page
from emorl.report.published import PUBLISHED_ABLATIONS, published
from emorl.report.runs import QUANTITIES, Extent, Run, Scored, differences, groups_of, shortened, written
from emorl.runs.presets import PRESETS
from emorl.training.trainer import train
from emorl.types import Decomposition, Outcome

TINY = "efficient-morl/tetrominoes-tiny"
SHIPPED = "efficient-morl/tetrominoes"
WHITE, RED = np.full((4, 4, 3), 255, np.uint8), np.full((4, 4, 3), (255, 0, 0), np.uint8)


@dataclass(frozen=True)
class ToyConfig:
    image_size: int = 8
    num_slots: int = 2


class Toy(Model):
    """No iteration, no attention, no KL: slot 0 is the left half, as bright as its first number; the rest is black."""

    Config = ToyConfig

    def __init__(self) -> None:
        super().__init__()
        self.config = ToyConfig()
        self.unused = nn.Parameter(torch.zeros(1))

    def forward(
        self, x: Tensor, *, num_slots: int | None = None, num_steps: int | None = None, trace: bool = False
    ) -> Outcome:
        if num_steps is not None:
            raise UserError("This model does not iterate.")
        brightness = x.mean(dim=(1, 2, 3))
        slots = torch.zeros(len(x), 2, 3)
        slots[:, 0, 0], slots[:, 0, 2] = brightness, 1 - brightness
        return Outcome(x.mean(), {}, (self.decode(slots),))

    def decode(self, slots: Tensor) -> Decomposition:
        masks = torch.zeros(len(slots), 2, 1, 8, 8)
        masks[:, 0, :, :, :4] = masks[:, 1, :, :, 4:] = 1
        components = slots[:, :, :1, None, None].expand(-1, -1, 3, 8, 8)
        return Decomposition(masks, components, slots)


class Greys(SceneDataset):
    """Images of one brightness each, about which nothing more is known."""

    info = DatasetInfo("greys", 8, 1, {}, has_masks=False)

    def __len__(self) -> int:
        return 5

    def arrays(self, index: int) -> Arrays:
        grey = np.full((8, 8, 3), 40 * (index + 1), np.uint8)
        return {"image": grey, "segmentation": np.zeros((8, 8), np.uint8)}


@pytest.fixture(scope="module")
def tiny() -> Model:
    torch.manual_seed(0)
    return build(PRESETS[TINY].model).eval()


@pytest.fixture(scope="module")
def scenes() -> SceneDataset:
    return open_dataset(DataConfig(), "test")


# Panels and pictures


def test_panels_are_where_they_belong() -> None:
    picture = np.array(Panels([[RED, None], [WHITE, RED]]).drawn())
    side = 24 * 4  # the least whole factor that reaches 96 pixels
    assert picture.shape == (2 * side + 3 * GAP, 2 * side + 3 * GAP, 3)
    corner, next_one = GAP + 5, 2 * GAP + side + 5
    assert picture[corner, corner].tolist() == [255, 0, 0]
    assert picture[corner, next_one].tolist() == [255, 255, 255]
    assert picture[next_one, corner].tolist() == [255, 255, 255]
    assert picture[next_one, next_one].tolist() == [255, 0, 0]
    strip = np.array(Panels([[RED, RED]]).strip(0, 1))
    assert strip.shape == (4, 8 + GAP, 4)
    assert strip[0, :, 3].tolist() == [255] * 4 + [0] * GAP + [255] * 4  # one sees through between panels


def test_names_stand_beside_rows_and_columns_with_the_colour_of_their_slot() -> None:
    bare = Panels([[RED, RED]]).drawn()
    named = Panels([[RED, RED]], ["a row"], ["image", "slot 0"], slots_from=1)
    drawn = named.drawn()
    assert drawn.width > bare.width
    assert drawn.height > bare.height
    assert named.colors == [None, tuple(palette(1)[0].tolist())]
    pixels = np.array(drawn).reshape(-1, 3)
    assert (pixels == palette(1)[0]).all(axis=1).any()


def test_scenes_apart_have_a_column_for_each_slot(tiny: Model, scenes: SceneDataset) -> None:
    panels = scene_panels(tiny, scenes, indices=[2, 0, 10_000], num_slots=5)
    assert [len(row) for row in panels.rows] == [8, 8]  # the scene that does not exist is left out
    assert panels.titles[2:] == ["masks", "slot 0", "slot 1", "slot 2", "slot 3", "slot 4"]
    expected = (scenes[2].image.permute(1, 2, 0).numpy() * 255).round()
    assert np.array_equal(panels.rows[0][0], expected)


def test_the_worst_scenes_are_those_with_the_lowest_ari_or_the_largest_error() -> None:
    values = {"ari": torch.tensor([[0.9, 0.1, 0.5]]), "mse": torch.tensor([[3.0, 1.0, 2.0]])}
    assert worst_scenes(Scores(values, {}), 2) == [1, 2]
    del values["ari"]
    assert worst_scenes(Scores(values, {}), 2) == [0, 2]


def test_posteriors_have_a_row_for_each_layer_and_refinement(tiny: Model, scenes: SceneDataset) -> None:
    panels = posterior_panels(tiny, scenes, scene=1, num_steps=2)
    assert panels.labels == ["scene", "layer 1", "layer 2", "layer 3", "refined 1", "refined 2"]
    assert [len(row) for row in panels.rows] == [2, 7, 7, 7, 7, 7]
    assert [row[2] is None for row in panels.rows[1:]] == [False, False, False, True, True]
    assert posteriors(tiny, scenes).height > 5 * 96


def test_attention_lights_the_image_at_its_own_resolution() -> None:
    image = torch.full((3, 4, 4), 0.8)
    attention = torch.zeros(1, 2, 1, 2, 2)
    attention[0, 0, 0, 0, 0], attention[0, 1, 0, 1:] = 0.5, 0.25
    masks = torch.full((1, 2, 1, 4, 4), 0.5)
    step = Decomposition(masks, torch.zeros(1, 2, 3, 4, 4), torch.zeros(1, 2, 3), attention)
    *_, assigned, first, second = posterior_row(image, step)
    assert assigned is not None
    assert first is not None
    assert second is not None
    assert (first[:2, :2] == 204).all()  # as bright as the image where attention is greatest
    assert first[2:].max() == first[:, 2:].max() == 0
    assert (second[2:] == 204).all()
    assert (assigned[2:] == palette(2)[1]).all()
    without = posterior_row(image, replace(step, attention=None))
    assert without[2] is None
    assert (without[3] == 204).all()  # by its mask, which is the same everywhere


def test_steps_that_are_all_alike_are_just_steps() -> None:
    bare = Toy().decode(torch.zeros(1, 2, 3))
    attending = replace(bare, attention=torch.ones(1, 2, 1, 2, 2))
    assert step_names([bare, bare]) == ["step 1", "step 2"]
    assert step_names([attending]) == ["step 1"]
    assert step_names([attending, bare]) == ["layer 1", "refined 1"]


# Traversals

RANGES = torch.tensor([[0.0, -1.0, 0.0], [1.0, 1.0, 0.5]])


@pytest.fixture
def traversal() -> Traversal:
    found = Toy().decode(torch.tensor([[[0.3, 0.0, 0.0], [0.0, 0.0, 0.0]]]))
    return traverse(Toy(), found, RANGES, [0, 1], values=5)


def test_a_traversal_goes_from_the_least_to_the_greatest_value(traversal: Traversal) -> None:
    assert traversal.slot == 0
    assert traversal.pictures.shape == (2, 5, 3, 8, 8)
    moved, ignored = traversal.pictures
    assert torch.allclose(moved[:, 0, 0, 0], torch.linspace(0, 1, 5))
    assert moved[2, 0, 0, 0] == 0.5  # the middle column is the middle of the range
    assert (moved[:, :, :, 4:] == 0).all()  # the other slot is not touched
    assert (ignored == ignored[0]).all()  # a dimension that the decoder ignores
    assert torch.allclose(ignored[0, 0, 0, 0], torch.tensor(0.3))


def test_traversals_refuse_what_is_not_there() -> None:
    found = Toy().decode(torch.zeros(1, 2, 3))
    for options, message in [
        ({"dims": [3]}, "no dimension 3: a slot's dimensions are 0 to 2"),
        ({"dims": [0], "slot": 2}, "no slot 2: this model's slots are 0 to 1"),
        ({"dims": []}, "at least one dimension"),
    ]:
        with pytest.raises(UserError, match=message):
            traverse(Toy(), found, RANGES, **options)


def test_the_slot_that_stands_out_is_not_the_background() -> None:
    slots = torch.zeros(1, 2, 3)
    slots[0, 1, 0] = 0.9
    found = Toy().decode(slots)
    masks = found.masks.clone()
    masks[:, 0], masks[:, 1] = 1, 0
    masks[:, 0, :, :3, 5:], masks[:, 1, :, :3, 5:] = 0, 1  # a small bright thing before much black
    assert most_salient(replace(found, masks=masks)) == 1
    assert widest(RANGES, 2) == [1, 0]


def test_an_animation_goes_forth_and_back_without_end(traversal: Traversal) -> None:
    frames = traversal_frames(traversal)
    assert len(frames) == 8  # five values, and three on the way back
    assert frames[0].titles == ["z0", "z1"]
    with Image.open(io.BytesIO(as_gif([frame.strip(0, 4) for frame in frames]))) as gif:
        assert gif.n_frames == 8
        assert gif.info["loop"] == 0
        assert gif.convert("RGBA").getpixel((33, 5))[3] == 0  # between the panels
        gif.seek(4)
        assert gif.convert("RGBA").getpixel((2, 2)) == (255, 255, 255, 255)
    with Image.open(io.BytesIO(as_gif([frame.drawn() for frame in frames]))) as gif:
        assert min(gif.convert("RGB").getpixel((1, 1))) > 248


# Charts


def test_curves_leave_out_what_is_missing_or_never_moves() -> None:
    metrics = [
        {"step": step, "loss": 5.0 - step, "nll": None, "nll_weight": 3.5, "update_1": 1.0 + step,
         "update_2": 2.0, "validation_ari": 0.1 * step, "kl_refined": 9.0 - step, "strange": 1.0}
        for step in range(6)
    ]  # fmt: skip
    found = {panel.title: names for panel, names in panels_of({"a": metrics})}
    assert list(found.values()) == [["validation_ari"], ["loss"], ["kl_refined"], ["update_1", "update_2"]]
    assert series(metrics, "nll") == ([], [])
    assert series(metrics, "loss")[0] == [1, 2, 3, 4, 5, 6]
    chart = training_curves(Course({"a": metrics, "_b$": metrics[:3]}, goals={"ari": 0.4}))
    assert sum(axes.get_visible() for axes in chart.axes) == 4
    assert training_curves(Course({"a": metrics[:1]})) is None
    assert training_curves(Course({})) is None


def test_long_curves_are_thinned_to_means() -> None:
    metrics = [{"step": step, "loss": float(step % 2)} for step in range(3200)]
    steps, values = series(metrics, "loss")
    assert len(steps) == 160
    assert set(values) == {0.5}


def test_maps_have_a_cell_for_each_dimension_and_leave_out_what_says_nothing() -> None:
    chart = activeness_map([0.1] * 10, [3])
    assert [text.get_text() for text in chart.axes[0].texts] == [f"z{d}" for d in range(10)]
    frames = [patch for patch in chart.axes[0].patches if not patch.get_fill()]
    assert len(frames) == 1
    assert frames[0].get_x() == pytest.approx(3.04)
    matrix = importance_matrix([[0.9, 0.0], [0.0, 0.0], [0.1, 0.7]], ["x", "is_red"])
    assert [label.get_text() for label in matrix.axes[0].get_yticklabels()] == ["z0", "z2"]
    assert [label.get_text() for label in matrix.axes[0].get_xticklabels()] == ["x", "is red"]
    assert {text.get_text() for text in matrix.axes[0].texts} == {"90%", "10%", "100%", ""}


def test_a_chart_takes_the_page_s_colour_and_nothing_from_outside() -> None:
    chart = blank(2, 2)
    chart.subplots().set_title(literal("_<b>&$x 0.98765"))
    svg = svg_of(chart)
    assert svg.startswith("<svg")
    assert "&lt;b&gt;&amp;$x 0.98765" in svg  # a name is neither markup nor a formula, and keeps its digits
    assert "font-family" not in svg
    assert "metadata" not in svg
    assert re.findall(r'href="([^#][^"]*)"', svg) == []


# Numbers


def run_of(model: Model, scenes: SceneDataset, name: str = "a", **settings: object) -> Run:
    train_settings = {"seed": 0, "steps": 20_000, "batch_size": 4, **settings}
    whole = {"model": {"kind": "toy"}, "data": {"name": "greys", "path": None}, "train": train_settings}
    return Run(name, "toy", model, scenes, whole)


def scored(name: str, ari: float, **settings: object) -> Scored:
    values = {"ari": torch.tensor([[ari, ari + 0.2]]), "mse": torch.ones(1, 2)}
    return Scored(run_of(Toy(), Greys(), name, **settings), Scores(values, {"images": 2, "num_slots": 2}))


def test_runs_that_differ_in_their_seed_are_one_group() -> None:
    several = [scored("a", 0.5, seed=0), scored("b", 0.7, seed=1), scored("c", 0.1, batch_size=8)]
    groups = groups_of(several)
    assert [len(group.members) for group in groups] == [2, 1]
    assert groups[0].label == "batch size 4"
    assert groups[1].label == "c"
    assert groups[0].value("ari") == pytest.approx((0.7, 0.1414), abs=1e-3)  # sd over runs
    assert groups[1].value("ari") == pytest.approx((0.2, 0.1))  # standard error over images
    assert differences([one.run.settings for one in several]) == ["train.batch_size"]


def test_numbers_are_written_for_people() -> None:
    assert QUANTITIES["mse"].text(7e-4, 6e-4) == "7.0 ± 6.0"
    assert QUANTITIES["ari"].text(0.98249) == "0.982"
    assert written(200_000) == "200\u202f000"
    assert written([[0, 3], [100_000, 1]]) == "0, 3, 100\u202f000, 1"
    assert (written(None), written(True), written(())) == ("–", "yes", "none")
    assert shortened(["x" * 40, "y"], 10) == ["…" + "x" * 9, "y"]
    assert shortened(["a" + "x" * 40, "b" + "x" * 40], 4) == ["axx…", "bxx…"]
    long = ["x" * 9 + "a" + "x" * 9, "x" * 9 + "b" + "x" * 9]
    assert shortened(long, 4) == long  # nothing shorter would tell them apart


def test_runs_have_the_shortest_names_that_tell_them_apart(tmp_path: Path) -> None:
    runs = [tmp_path / name / seed for name in ("iodine", "monet") for seed in ("seed-0", "seed-1")]
    for run in runs:
        run.mkdir(parents=True)
    names = list(map(str, runs))
    assert display_names(names[:2]) == ["seed-0", "seed-1"]
    assert display_names(names[::2]) == ["iodine", "monet"]
    assert display_names(names) == ["iodine/seed-0", "iodine/seed-1", "monet/seed-0", "monet/seed-1"]
    assert run_of(Toy(), Greys()).steps == "20\u202f000"
    assert replace(run_of(Toy(), Greys()), metrics=[{"step": 99}]).steps == "100 of 20\u202f000"


def test_published_numbers_are_found_by_model_and_data() -> None:
    ours = published("efficient-morl", "tetrominoes")
    assert {name: value[:2] for name, value in ours.items()} == {
        "ari": (0.982, 0.018), "mse": (7e-4, 6e-4), "kl_refined": (98.5, 21.4)
    }  # fmt: skip
    assert published("toy", "tetrominoes") == {}
    assert PUBLISHED_ABLATIONS["full", "tetrominoes"]["ari"].mean == 0.979


# Pages


class Checker(HTMLParser):
    """Tags that are not closed in order, and addresses."""

    VOID = frozenset(("meta", "link", "img", "source", "br", "hr"))

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.addresses: list[str] = []
        self.headings: list[int] = []
        self.images: list[dict[str, str | None]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attributes)
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        named = {"src", "href", "xlink:href", "srcset", "action", "data", "poster"}
        self.addresses += [value or "" for name, value in attributes if name in named]
        if re.fullmatch("h[1-6]", tag):
            self.headings.append(int(tag[1]))
        if tag == "img":
            self.images.append(dict(attributes))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def check_page(page: str) -> Checker:
    """A page is whole, and needs nothing but itself."""
    checker = Checker(page)
    assert checker.open == []
    assert checker.addresses
    assert all(re.match(r"data:|#", address) for address in checker.addresses)
    assert re.findall(r"url\((?!#)", page) == []
    assert "@import" not in page
    assert "<script" not in page
    assert checker.headings[0] == 1
    assert all(after - before <= 1 for before, after in zip(checker.headings, checker.headings[1:], strict=False)
               if after != 4)  # fmt: skip
    assert all("alt" in image for image in checker.images)
    ids = re.findall(r'\bid="([^"]+)"', page)
    assert len(ids) == len(set(ids))
    assert all(address[1:] in ids for address in checker.addresses if address.startswith("#"))
    return checker


def sections_of(page: str) -> list[str]:
    return re.findall(r'<section id="(\w+)">', page)


@pytest.fixture(scope="module")
def two_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two seeds of a tiny training, one with a name that is not easy to write."""
    folder = tmp_path_factory.mktemp("runs")
    for seed, name in enumerate(["<b>&", "plain"]):
        preset = PRESETS[TINY]
        train(
            replace(preset, train=replace(preset.train, steps=12, evaluate_every=6, seed=seed)), folder / name
        )
    return [folder / "<b>&", folder / "plain"]


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


def test_sections_without_data_are_left_out() -> None:
    """A model that does not iterate, images without masks, a training without metrics, a data set of no paper."""
    run = run_of(Toy(), Greys())
    stages: list[str] = []

    def stage(title: str) -> nullcontext:
        stages.append(title)
        return nullcontext(lambda done, total: None)

    with pytest.warns(UserWarning, match="no DCI of a"):
        page = build_page([run], Extent(dci="fast"), stage=stage, commands=["emorl"], footer="")
    assert [section.name for section in page.sections] == [
        "scenes",
        "inference",
        "latents",
        "settings",
        "again",
    ]
    assert [tile.title for tile in page.tiles] == ["MSE (× 10⁻⁴)", "Explained (%)", "Slots in use"]
    assert page.title == "toy on greys"
    assert stages[0] == "scoring a"
    check_page(render(page))


def test_a_page_escapes_everything() -> None:
    text = render(Page("<i>", "<i>", "<i>", [], "<i>", [], "<i>"))
    assert "<i>" not in text
    assert text.count("&lt;i&gt;") == 7  # the title and the kicker name the window too


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
    capsys: pytest.CaptureFixture,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "A").symlink_to(two_runs[1])
    with pytest.raises(SystemExit) as stopped:
        main(arguments)
    assert stopped.value.code == 2
    error = capsys.readouterr().err
    assert message in error
    assert error.count("\n") == 1


def test_the_command_in_a_report_trains_the_same_run(
    two_runs: list[Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    run = open_run(str(two_runs[1]), "test")
    assert nearest_preset(PRESETS[TINY]) == TINY
    command = train_command_of(run).split()
    wanted = []
    monkeypatch.setattr(emorl.cli.train, "train", lambda config, out, resume: wanted.append(config))
    main(command[1:])
    assert wanted[0].to_dict() == run.settings
    strange = {**run.settings, "model": {**run.settings["model"], "kl_start": None}}
    assert "config.json" in train_command_of(replace(run, settings=strange))


def test_figures_and_reports_from_the_command_line(tmp_path: Path, emorl: Callable) -> None:
    made = emorl("report", SHIPPED, "--quick", "--images", 4, "--out", "r.html")
    assert made.returncode == 0, made.stderr
    assert "Wrote r.html" in made.stderr
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    check_page(page)
    assert "learning" not in sections_of(page)  # released weights have no metrics
    assert "train efficient-morl/tetrominoes-fast" in page
    drawn = emorl("figure", "traversals", SHIPPED, "--dims", 5, 1, "--scenes", 4, "--out", "t.gif")
    assert drawn.returncode == 0, drawn.stderr
    with Image.open(tmp_path / "t.gif") as gif:
        assert gif.n_frames == 30


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


def test_the_importance_matrix_can_be_drawn(tmp_path: Path) -> None:
    out = tmp_path / "dci.svg"
    main(["figure", "dci", SHIPPED, "--scenes", "12", "--out", str(out)])
    assert "shape" in out.read_text()


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
