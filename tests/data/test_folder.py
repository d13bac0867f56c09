"""One's own images: every kind of file is read rightly or refused clearly, and a folder of them trains."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from PIL import Image

from emorl.data import DataConfig, open_dataset
from emorl.data.fit import fitted
from emorl.data.folder import FolderScenes, damaged_pictures, split_by_name
from emorl.data.images import MOST_BYTES, MOST_PIXELS, read_ids, read_pixels
from emorl.errors import UserError
from emorl.evaluation.evaluate import evaluate
from emorl.models import build
from emorl.runs.presets import PRESETS

RED = (200, 30, 20)


def save(path: Path, image: Image.Image, **options: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path, **options)
    return path


def test_plain_images_are_read_exactly(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (5, 7, 3), dtype=np.uint8)
    assert np.array_equal(read_pixels(save(tmp_path / "a.png", Image.fromarray(pixels))), pixels)
    lossless = save(tmp_path / "a.webp", Image.fromarray(pixels), lossless=True)
    assert np.array_equal(read_pixels(lossless), pixels)
    flat = Image.new("RGB", (16, 16), RED)
    for name in ("a.jpg", "a.JPEG"):
        assert abs(read_pixels(save(tmp_path / name, flat)).astype(int) - RED).max() <= 3


def test_unusual_images_are_read_rightly(tmp_path: Path) -> None:
    gray = read_pixels(save(tmp_path / "l.png", Image.new("L", (3, 2), 77)))
    assert gray.shape == (2, 3, 3)
    assert (gray == 77).all()
    deep = Image.fromarray(np.full((2, 3), 40_000, dtype=np.uint16))
    assert (read_pixels(save(tmp_path / "16.png", deep)) == 40_000 >> 8).all()
    assert (read_pixels(save(tmp_path / "1.png", Image.new("1", (3, 2), 1))) == 255).all()
    palette = Image.new("RGB", (3, 2), RED).convert("P", palette=Image.Palette.ADAPTIVE)
    assert (read_pixels(save(tmp_path / "p.png", palette)) == RED).all()
    clear = read_pixels(save(tmp_path / "a.png", Image.new("RGBA", (3, 2), (*RED, 0))))
    assert (clear == 0).all()  # what is transparent is black, not what hides behind it
    half = read_pixels(save(tmp_path / "h.png", Image.new("LA", (3, 2), (200, 128))))
    assert abs(half.astype(int) - 100).max() <= 1
    cmyk = read_pixels(save(tmp_path / "c.jpg", Image.new("CMYK", (16, 16), (0, 255, 255, 0))))
    assert cmyk[..., 0].min() > 200
    assert cmyk[..., 1:].max() < 60
    frames = [Image.new("RGB", (4, 4), color) for color in (RED, (0, 0, 255))]
    animated = tmp_path / "x.webp"
    frames[0].save(animated, save_all=True, append_images=frames[1:], lossless=True)
    assert (read_pixels(animated) == RED).all()
    turned = Image.new("RGB", (4, 2), RED)
    exif = turned.getexif()
    exif[0x0112] = 6  # on its side
    assert read_pixels(save(tmp_path / "e.jpg", turned, exif=exif)).shape == (4, 2, 3)


def test_images_are_cut_in_the_middle_and_resized() -> None:
    wide = np.zeros((10, 30, 3), dtype=np.uint8)
    wide[:, 10:20] = RED
    assert (fitted(wide, 4) == RED).all()
    assert (fitted(wide.transpose(1, 0, 2), 64) == RED).all()
    assert fitted(np.full((1, 1, 3), 9, dtype=np.uint8), 8).tolist() == np.full((8, 8, 3), 9).tolist()
    ids = np.array([[0, 1], [2, 3]], dtype=np.uint8)
    assert set(fitted(ids, 33, smooth=False).ravel()) == {0, 1, 2, 3}  # no ids in between


def refused(tmp_path: Path) -> dict[str, Path]:
    good = save(tmp_path / "good.png", Image.effect_noise((40, 40), 50).convert("RGB"))
    content = good.read_bytes()
    files = {
        "empty": b"",
        "text": b"not an image",
        "truncated": content[: len(content) // 2],
        "no data": content[:50],
        "flipped": content[:60] + bytes(b ^ 0xFF for b in content[60:120]) + content[120:],
    }
    paths = {}
    for name, data in files.items():
        paths[name] = tmp_path / f"{name}.png"
        paths[name].write_bytes(data)
    paths["huge"] = save(tmp_path / "huge.png", Image.new("1", (20_000, 20_000)))
    paths["missing"] = tmp_path / "missing.png"
    paths["folder"] = tmp_path / "folder.png"
    paths["folder"].mkdir()
    paths["pipe"] = tmp_path / "pipe.png"
    os.mkfifo(paths["pipe"])
    paths["dangling link"] = tmp_path / "link.png"
    paths["dangling link"].symlink_to(tmp_path / "nowhere.png")
    return paths


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    for kind, path in refused(tmp_path).items():
        with pytest.raises(UserError, match=f"Cannot read .*{path.name}") as caught:
            read_pixels(path)
        assert "\n" not in str(caught.value), kind


def test_pictures_of_too_many_pixels_or_bytes_are_not_decoded(tmp_path: Path) -> None:
    """Pillow itself refuses twice as many pixels, and any number of bytes is right to it."""
    wide = save(tmp_path / "wide.png", Image.new("1", (10_000, MOST_PIXELS // 10_000 + 1)))
    with pytest.raises(UserError, match=f"it has more than {MOST_PIXELS} pixels"):
        read_pixels(wide)
    long = save(tmp_path / "long.png", Image.new("RGB", (4, 4), RED))
    os.truncate(long, MOST_BYTES + 1)  # what is added takes no space
    with pytest.raises(UserError, match=f"it has {MOST_BYTES + 1} bytes, and {MOST_BYTES} are the limit"):
        read_pixels(long)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    at=st.integers(0, 3000),
    junk=st.binary(min_size=1, max_size=30),
    kind=st.sampled_from(["png", "jpg", "webp"]),
)
def test_damaged_images_are_read_or_refused(at: int, junk: bytes, kind: str, tmp_path: Path) -> None:
    path = save(tmp_path / f"x.{kind}", Image.effect_noise((24, 24), 90).convert("RGB"))
    content = bytearray(path.read_bytes())
    at %= len(content)
    content[at : at + len(junk)] = junk
    path.write_bytes(content)
    try:
        pixels = read_pixels(path)
    except UserError:
        return
    assert pixels.dtype == np.uint8
    assert pixels.shape[2] == 3


def test_masks_give_ids_to_colours(tmp_path: Path) -> None:
    ids = np.array([[0, 7, 7], [0, 200, 7]], dtype=np.uint8)
    expected = [[0, 1, 1], [0, 2, 1]]
    assert read_ids(save(tmp_path / "l.png", Image.fromarray(ids))).tolist() == expected
    palette = Image.fromarray(ids)
    palette.putpalette(list(range(256)) * 3)
    assert read_ids(save(tmp_path / "p.png", palette)).tolist() == expected
    colors = np.zeros((2, 3, 3), dtype=np.uint8)
    colors[ids == 7], colors[ids == 200] = (0, 0, 9), RED
    assert read_ids(save(tmp_path / "c.png", Image.fromarray(colors))).tolist() == expected
    noise = np.random.default_rng(0).integers(0, 256, (40, 40, 3), dtype=np.uint8)
    with pytest.raises(UserError, match="at most 255 objects"):
        read_ids(save(tmp_path / "n.png", Image.fromarray(noise)))


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    rng = np.random.default_rng(0)
    for number in range(12):
        pixels = rng.integers(0, 256, (40 + number, 50, 3), dtype=np.uint8)
        save(folder / ("cats" if number % 2 else ".") / f"{number}.png", Image.fromarray(pixels))
    (folder / "notes.txt").write_text("not an image")
    (folder / ".hidden.png").write_bytes(b"x")
    return folder


def test_splits_share_no_image(photos: Path) -> None:
    config = DataConfig("folder", path=str(photos), image_size=16)
    seen = []
    for split, size in (("train", 10), ("test", 1), ("validation", 1)):
        scenes = open_dataset(config, split)  # type: ignore[arg-type]
        assert len(scenes) == size
        assert scenes[0].image.shape == (3, 16, 16)
        seen += [scenes.arrays(index)["image"].tobytes() for index in range(size)]
    assert len(set(seen)) == 12


def test_without_masks_there_is_no_ari_and_with_masks_there_is(photos: Path) -> None:
    model = build(PRESETS["efficient-morl/tetrominoes-tiny"].model)
    config = DataConfig("folder", path=str(photos), image_size=35)
    scores = evaluate(model, open_dataset(config, "train"), images=2)
    assert "ari" not in scores.values
    assert scores.mean("mse") > 0
    for path in [*photos.glob("[0-9]*.png"), *photos.glob("cats/*.png")]:
        with Image.open(path) as image:
            mask = np.zeros((image.height, image.width), dtype=np.uint8)
        mask[:20] = 1
        save(photos / "masks" / path.relative_to(photos), Image.fromarray(mask))
    scenes = open_dataset(config, "train")
    assert scenes[0].segmentation.unique().tolist() == [0, 1]
    assert {"ari", "ari_with_background", "miou"} <= set(evaluate(model, scenes, images=2).values)
    save(photos / "masks" / "0.png", Image.new("L", (9, 9)))
    folder = FolderScenes(photos, size=35)
    with pytest.raises(UserError, match=r"masks.0\.png is 9x9; its image is 50x40"):
        folder.arrays(folder.names.index("0.png"))


def test_folders_that_cannot_be_used(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--data\.path"):
        open_dataset(DataConfig("folder"), "train")
    with pytest.raises(UserError, match="is not a folder"):
        open_dataset(DataConfig("folder", path=str(tmp_path / "none")), "train")
    with pytest.raises(UserError, match="holds no images"):
        open_dataset(DataConfig("folder", path=str(tmp_path)), "train")
    save(tmp_path / "1.png", Image.new("RGB", (4, 4)))
    with pytest.raises(UserError, match="at least one each"):
        open_dataset(DataConfig("folder", path=str(tmp_path)), "train")


def test_a_folder_trains_with_one_command(
    photos: Path, tmp_path: Path, emorl: Callable[..., CompletedProcess[str]]
) -> None:
    os.rename(photos / "0.png", os.fsencode(photos) + b"/\xff\xfe.png")  # a name that is not UTF-8
    result = emorl("train", "efficient-morl/folder", "--data.path", photos,
                   "--train.steps", 2, "--train.batch-size", 2, "--data.image-size", 16, "--model.image-size", 16,
                   "--model.slot-size", 8)  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert "ARI" not in result.stderr
    assert "MSE" in result.stderr
    assert emorl("evaluate", "runs/efficient-morl-folder").returncode == 0


def test_a_picture_added_makes_no_training_picture_a_test_picture(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for trial in range(60):
        names = [f"{name}.png" for name in rng.choice(10**6, int(rng.integers(4, 400)), replace=False)]
        cut = int(rng.integers(3, len(names)))
        before, after = split_of(names[:cut], trial), split_of(names, trial)
        assert not before["train"] & (after["test"] | after["validation"])
        assert set.union(*after.values()) == set(names)


def test_a_picture_removed_changes_no_other_one(tmp_path: Path) -> None:
    names = [f"{number}.png" for number in range(300)]
    before, after = split_of(names, 0), split_of(names[30:], 0)
    assert all(after[split] == before[split] - set(names[:30]) for split in before)


def split_of(names: list[str], seed: int) -> dict[str, set[str]]:
    return {split: set(found) for split, found in split_by_name(names, Path("x"), seed=seed).items()}


def test_a_tenth_is_held_out_and_320_at_most() -> None:
    sizes = {split: len(found) for split, found in split_of([f"{n}.jpg" for n in range(2000)], 0).items()}
    assert all(160 < sizes[split] < 240 for split in ("test", "validation"))
    sizes = {split: len(found) for split, found in split_of([f"{n}.jpg" for n in range(6000)], 0).items()}
    assert sizes == {"train": 5360, "test": 320, "validation": 320}


def test_a_split_knows_the_names_of_its_pictures(photos: Path) -> None:
    config = DataConfig("folder", path=str(photos), image_size=16)
    names = [name for split in ("train", "test", "validation") for name in open_dataset(config, split).names]
    assert sorted(names) == sorted(f"{'cats/' if number % 2 else ''}{number}.png" for number in range(12))


@pytest.mark.parametrize("suffix", [".bmp", ".tif", ".tiff", ".gif", ".webp", ".JPG"])
def test_every_format_is_read_from_a_folder(suffix: str, tmp_path: Path) -> None:
    for number in range(12):
        save(tmp_path / f"{number}{suffix}", Image.new("RGB", (16, 16), RED))
    scene = FolderScenes(tmp_path, size=16).arrays(0)
    assert abs(scene["image"].astype(int) - RED).max() <= 3
    assert damaged_pictures(tmp_path) == []


def test_only_the_formats_we_name_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pillow gives EPS to Ghostscript, whatever the file is called."""

    def ghostscript(*_: object, **__: object) -> None:
        raise AssertionError("started a program")

    monkeypatch.setattr("subprocess.check_call", ghostscript)
    path = tmp_path / "a.png"
    Image.new("RGB", (4, 4), RED).save(path, format="EPS")
    with pytest.raises(UserError, match="it is not an image"):
        read_pixels(path)
    Image.new("RGB", (4, 4), RED).save(path, format="PPM")
    with pytest.raises(UserError, match="it is not an image"):
        read_pixels(path)


def test_damaged_pictures_are_found_before_they_are_needed(photos: Path) -> None:
    assert damaged_pictures(photos) == []
    noise = Image.effect_noise((200, 200), 90).convert("RGB")
    names = ["cut.bmp", "cut.gif", "cut.jpg", "cut.png", "cut.tif", "cut.webp"]
    for name in names:
        path = save(photos / name, noise)
        path.write_bytes(path.read_bytes()[: path.stat().st_size * 3 // 4])
    os.mkfifo(photos / "pipe.png")
    found = dict(damaged_pictures(photos))
    assert sorted(found) == [*names, "pipe.png"]
    assert found["pipe.png"] == "it is a pipe, not a file"


def test_masks_are_looked_at_with_their_pictures(photos: Path) -> None:
    names = FolderScenes(photos, size=16).names
    for name in names[2:]:
        with Image.open(photos / name) as image:
            save(photos / "masks" / name, Image.new("L", image.size))
    save(photos / "masks" / names[0], Image.new("L", (9, 9)))
    found = dict(damaged_pictures(photos))
    assert set(found) == {f"masks/{names[0]}", f"masks/{names[1]}"}
    assert "9x9; its image is 50x" in found[f"masks/{names[0]}"]
    turned = Image.new("RGB", (48, 24), RED)
    exif = turned.getexif()
    exif[0x0112] = 6  # on its side
    save(photos / "turned.jpg", turned, exif=exif)
    save(photos / "masks" / "turned.png", Image.new("L", (24, 48)))
    assert len(damaged_pictures(photos)) == 2


def test_floating_point_pictures_are_refused(tmp_path: Path) -> None:
    path = save(tmp_path / "f.tif", Image.fromarray(np.full((4, 4), 0.5, dtype=np.float32)))
    with pytest.raises(UserError, match="floating-point"):
        read_pixels(path)
