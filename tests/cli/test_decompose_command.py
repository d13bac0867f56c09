"""emorl decompose: files, folders and patterns; results at the picture's own size; what is explained badly is told."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image, ImageDraw

from emorl.cli import main
from emorl.cli.decompose import FILES
from emorl.data import DataConfig, open_dataset
from emorl.panels import to_pixels
from toys import SHIPPED


def scene(index: int = 0) -> Image.Image:
    """A picture of the kind that the weights have learned from."""
    return Image.fromarray(to_pixels(open_dataset(DataConfig(), "test")[index].image))


def photograph(width: int, height: int) -> Image.Image:
    """A disc on a plain ground."""
    image = Image.new("RGB", (width, height), (90, 120, 150))
    ImageDraw.Draw(image).ellipse((width // 4, height // 4, width // 2, height // 2), fill=(220, 60, 40))
    return image


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def decompose(*words: object) -> None:
    main(["decompose", SHIPPED, *map(str, words), "--out", "parts"])


def described(folder: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((Path("parts") / folder / "objects.json").read_text())
    return found


def test_results_mirror_the_paths_of_pictures_and_never_collide() -> None:
    for name in ("a/1.png", "b/1.png", "b/deep/1-1.png", "b/deep/1.jpg", "b/deep/1.png"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        scene().save(name)
    Path("b/notes.txt").write_text("no picture")
    decompose("a", "b/**/*.png", "b/deep", "a/1.png")
    folders = {path.parent.relative_to("parts").as_posix() for path in Path("parts").rglob("objects.json")}
    assert folders == {"a/1", "b/1", "b/deep/1-1", "b/deep/1.jpg", "b/deep/1.png"}
    assert all({path.name for path in (Path("parts") / one).iterdir()} == set(FILES) for one in folders)
    assert described("b/deep/1.png")["picture"] == str(Path("b/deep/1.png").absolute())


def test_objects_are_where_they_are(capsys: pytest.CaptureFixture[str]) -> None:
    true = open_dataset(DataConfig("multi-dsprites"), "test")[0]
    image = Image.fromarray(to_pixels(true.image))
    image.save("scene.png")
    image.resize((192, 192), Image.Resampling.NEAREST).save("large.png")
    words = ["scene.png", "large.png", "--json", "--tries", "4", "--out", "parts"]
    main(["decompose", "efficient-morl/multi-dsprites", *words])
    told = capsys.readouterr()
    lines = [json.loads(line) for line in told.out.splitlines()]
    assert [Path(line["picture"]).name for line in lines] == ["scene.png", "large.png"]
    assert lines == [described("scene"), described("large")]
    assert "explained badly" not in told.err
    for line, factor in zip(lines, (1, 3), strict=True):
        assert (line["width"], line["height"], line["is_explained"]) == (64 * factor, 64 * factor, True)
        assert [one["background"] for one in line["objects"]].count(True) == 1
        for number in range(1, int(true.segmentation.max()) + 1):
            rows, columns = (true.segmentation == number).nonzero(as_tuple=True)
            centre = factor * (columns.float().mean() + 0.5), factor * (rows.float().mean() + 0.5)
            colour = 255 * true.image[:, rows, columns].mean(dim=1).numpy()
            (near,) = (one for one in line["objects"] if distance(one["centre"], centre) < 3 * factor)
            assert np.abs(np.array(near["colour"]) - colour).max() < 40
            assert near["area"] == pytest.approx(len(rows) * factor**2, rel=0.3)
            left, top, right, bottom = near["box"]
            assert left < centre[0] < right
            assert top < centre[1] < bottom


def distance(one: Any, other: Any) -> float:
    return float(max(abs(one[0] - other[0]), abs(one[1] - other[1])))


@pytest.mark.parametrize("fit", ["crop", "pad", "stretch"])
def test_results_have_the_size_of_the_picture(fit: str) -> None:
    photograph(120, 80).save("wide.png")
    decompose("wide.png", "--fit", fit, "--slots", 5)
    with Image.open("parts/wide/segmentation.png") as owners:
        assert (owners.size, owners.mode) == ((120, 80), "P")
    arrays = np.load("parts/wide/arrays.npz")
    assert {name: array.shape for name, array in arrays.items()} == {
        "masks": (5, 80, 120),
        "components": (5, 3, 80, 120),
        "reconstruction": (3, 80, 120),
        "picture": (3, 80, 120),
        "segmentation": (80, 120),
        "slots": (5, 32),
    }
    total = arrays["masks"].astype(np.float32).sum(axis=0)
    left, top, right, bottom = described("wide")["seen"]
    assert (left, top, right, bottom) == ((20, 0, 100, 80) if fit == "crop" else (0, 0, 120, 80))
    assert np.abs(total[top:bottom, left:right] - 1).max() < 0.01
    assert total[:, :left].sum() == total[:, right:].sum() == 0


def test_arrays_of_large_pictures_are_smaller() -> None:
    photograph(300, 200).save("photo.png")
    decompose("photo.png", "--largest", 60)
    assert np.load("parts/photo/arrays.npz")["masks"].shape[1:] == (40, 60)
    with Image.open("parts/photo/segmentation.png") as owners:
        assert owners.size == (300, 200)
    assert described("photo")["seen"] == [50, 0, 250, 200]


def test_what_is_explained_badly_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    """These weights rebuild a grey picture as black."""
    Image.new("RGB", (40, 40), (128, 128, 128)).save("grey.png")
    scene().save("scene.png")
    decompose("grey.png", "scene.png", "--tries", 4)
    told = capsys.readouterr().err
    assert "Warning: grey.png is explained badly" in told
    assert "scene.png is explained badly" not in told
    assert "(1 of 2) mean nothing" in told
    assert [described(name)["is_explained"] for name in ("grey", "scene")] == [False, True]


def test_damaged_pictures_are_refused_by_name_or_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    Path("photos").mkdir()
    scene().save("photos/a.png")
    Path("photos/b.png").write_bytes(Path("photos/a.png").read_bytes()[:60])
    with pytest.raises(SystemExit):
        decompose("photos")
    assert "b.png" in capsys.readouterr().err
    assert not Path("parts").exists()
    decompose("photos", "--skip-damaged")
    assert "Left out: Cannot read photos/b.png" in capsys.readouterr().err
    assert [path.name for path in Path("parts").iterdir()] == ["a"]


@pytest.mark.parametrize("suffix", ["bmp", "tif", "gif", "webp", "jpg", "png"])
def test_formats(suffix: str) -> None:
    scene().save(f"x.{suffix}")
    decompose(f"x.{suffix}")
    assert described("x")["width"] == 35


def test_a_picture_s_result_depends_on_no_other() -> None:
    for number in range(3):
        scene(number).save(f"{number}.png")
    decompose(*(f"{number}.png" for number in range(3)))
    together = np.load("parts/2/arrays.npz")["masks"]
    main(["decompose", SHIPPED, "2.png", "--out", "alone"])
    assert np.allclose(np.load("alone/2/arrays.npz")["masks"], together, atol=2e-3)
