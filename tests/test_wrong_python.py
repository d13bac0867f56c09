"""Wrong inputs in Python: each is one UserError, one line long, that names the culprit and the way out."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

import emorl
from emorl.models.base import Model
from tiny import TINY

NAN = np.full((35, 35, 3), np.nan)
GREY = np.zeros((35, 35, 3), np.uint8)
X = torch.zeros(1, 3, 35, 35)
RUN = emorl.PRESETS[TINY]
MOST_SECONDS = 10  # a wrong input fails before anything is computed


@pytest.fixture(scope="module")
def model() -> Model:
    return emorl.build(RUN.model).eval()


# What it is -> how it is called with a model and an empty folder, and words of the message.
PICTURES: dict[str, tuple[Any, str]] = {
    "nothing": (None, "not NoneType"),
    "a number": (3, "not int"),
    "bytes": (b"\x89PNG", "not bytes"),
    "a dictionary": ({"image": GREY}, "not dict"),
    "an empty list": ([], "no pictures"),
    "an empty batch": (np.zeros((0, 35, 35, 3), np.uint8), "no pixels"),
    "an empty picture": (np.zeros((0, 5, 3), np.uint8), "no pixels"),
    "an empty PIL image": (Image.new("RGB", (0, 5)), "no pixels"),
    "a list of numbers": ([0.1, 0.2], "picture 0 is 0.1"),
    "nested lists": ([[[0.1, 0.2], [0.3, 0.4]]], "picture 0 is"),
    "a list with a hole": ([GREY, None], "picture 1 is None"),
    "a list of batches": ([GREY, np.stack([GREY, GREY])], "picture 1 is a batch of 2"),
    "one dimension": (np.zeros(9, np.uint8), "has shape (9,)"),
    "five dimensions": (np.zeros((1, 1, 4, 4, 3), np.uint8), "has shape"),
    "two channels": (np.zeros((8, 8, 2), np.uint8), "has shape (8, 8, 2)"),
    "seven channels": (torch.zeros(7, 8, 8), "has shape (7, 8, 8)"),
    "64-bit integers": (np.zeros((8, 8, 3), np.int64), "holds int64"),
    "16-bit integers": (np.zeros((8, 8, 3), np.uint16), "holds uint16"),
    "truth values": (torch.zeros(3, 8, 8, dtype=torch.bool), "holds bool"),
    "complex numbers": (np.zeros((8, 8, 3), np.complex64), "holds complex64"),
    "objects": (np.full((8, 8, 3), None), "holds object"),
    "floats up to 255": (np.full((8, 8, 3), 200.0), "Divide by 255"),
    "negative floats": (np.full((8, 8, 3), -0.1), "between -0.1 and -0.1"),
    "not a number": (NAN, "not finite"),
    "infinity": (NAN + np.inf, "not finite"),
    "floating-point PIL image": (Image.new("F", (8, 8)), "floating-point"),
    "an absent file": ("absent.png", "No such file"),
    "an empty name": ("", "folder"),
    "a name with a zero byte": ("a\0.png", "null byte"),
    "a folder": (".", "is a folder; list its pictures"),
    "a file that is no picture": (__file__, "not an image"),
}  # fmt: skip

Call = Callable[[Model, Path], object]
CALLS: dict[str, tuple[Call, str]] = {
    "decompose tries 0": (lambda m, f: emorl.decompose(GREY, m, tries=0), "tries must be at least 1"),
    "decompose tries 1.5": (lambda m, f: emorl.decompose(GREY, m, tries=1.5), "tries must be a whole number"),  # type: ignore[arg-type]
    "decompose seed -1": (lambda m, f: emorl.decompose(GREY, m, seed=-1), "seed must be at least 0"),
    "decompose seed 2**64": (lambda m, f: emorl.decompose(GREY, m, seed=2**64), "seed must be at most"),
    "decompose seed text": (lambda m, f: emorl.decompose(GREY, m, seed="x"), "seed must be a whole number"),  # type: ignore[arg-type]
    "decompose size 0": (lambda m, f: emorl.decompose(GREY, m, size=0), "size must be at least 1"),
    "decompose size pair": (lambda m, f: emorl.decompose(GREY, m, size=(9, 9)), "size must be a whole number"),  # type: ignore[arg-type]
    "decompose size huge": (lambda m, f: emorl.decompose(GREY, m, size=10**6), "size must be at most"),
    "decompose fit": (lambda m, f: emorl.decompose(GREY, m, fit="squash"), "fit must say"),  # type: ignore[arg-type]
    "decompose no slots": (lambda m, f: emorl.decompose(GREY, m, num_slots=0), "slots must be at least 1"),
    "decompose half a slot": (lambda m, f: emorl.decompose(GREY, m, num_slots=2.5), "num_slots must be a whole"),  # type: ignore[arg-type]
    "decompose steps -1": (lambda m, f: emorl.decompose(GREY, m, num_steps=-1), "steps must be at least 0"),
    "decompose model absent": (lambda m, f: emorl.decompose(GREY, "efficient-morl/cats"), "no released model"),
    "decompose model None": (lambda m, f: emorl.decompose(GREY, None), "not None"),  # type: ignore[arg-type]
    "decompose model empty": (lambda m, f: emorl.decompose(GREY, f), "is not a run directory"),
    "decompose device": (lambda m, f: emorl.decompose(GREY, "efficient-morl/tetrominoes", device="moon"), "no device"),
    "decompose device of a model": (lambda m, f: emorl.decompose(GREY, m, device="cpu"), "model.to(device)"),
    "method with an array": (lambda m, f: m.decompose(GREY), "emorl.decompose takes files"),  # type: ignore[arg-type]
    "method without images": (lambda m, f: m.decompose(X[:0]), "no images in this batch"),
    "method with one image": (lambda m, f: m.decompose(X[0]), "takes images of shape"),
    "method with another size": (lambda m, f: m.decompose(torch.zeros(1, 3, 64, 64)), "takes images of shape"),
    "method with uint8": (lambda m, f: m.decompose((X * 255).byte()), "Divide 8-bit images by 255"),
    "method with NaN": (lambda m, f: m.decompose(X * torch.nan), "not a number"),
    "method with 1.5 tries": (lambda m, f: m.decompose(X, tries=1.5), "tries must be a whole number"),  # type: ignore[arg-type]
    "method with a seed of -1": (lambda m, f: m.decompose(X, seed=-1), "seed must be at least 0"),
    "method with size -3": (lambda m, f: m.decompose(X, size=-3), "size must be at least 1"),
    "decode slots of another size": (lambda m, f: m.decode(torch.zeros(1, 4, 9)), "decodes slots of shape"),
    "decode one slot": (lambda m, f: m.decode(torch.zeros(m.slot_size)), "decodes slots of shape"),
    "decode no slots": (lambda m, f: m.decode(torch.zeros(1, 0, m.slot_size)), "decodes slots of shape"),
    "decode no images": (lambda m, f: m.decode(torch.zeros(0, 4, m.slot_size)), "decodes slots of shape"),
    "decode integers": (lambda m, f: m.decode(torch.zeros(1, 4, m.slot_size).long()), "tensor of floats"),
    "decode an array": (lambda m, f: m.decode(np.zeros((1, 4, m.slot_size))), "not ndarray"),  # type: ignore[arg-type]
    "decode at size 0": (lambda m, f: m.decode(torch.zeros(1, 4, m.slot_size), size=0), "size must be at least 1"),
    "load a number": (lambda m, f: emorl.load(3), "not 3"),  # type: ignore[arg-type]
    "load an empty name": (lambda m, f: emorl.load(""), "not ''"),
    "load a misspelt name": (lambda m, f: emorl.load("efficient-morl/tetromino"), "did you mean"),
    "from_pretrained of a file": (lambda m, f: emorl.from_pretrained(__file__), "no released model"),
    "save_pretrained of nothing": (lambda m, f: emorl.save_pretrained(None, f / "x"), "not None"),  # type: ignore[arg-type]
    "save_pretrained over a file": (lambda m, f: emorl.save_pretrained(m, __file__), "is a file, not a folder"),
    "train an absent preset": (lambda m, f: emorl.train("efficient-morl/cats", f / "x"), "no preset"),
    "train an absent file": (lambda m, f: emorl.train("absent.json", f / "x"), "absent.json"),
    "train a number": (lambda m, f: emorl.train(3, f / "x"), "not by 3"),  # type: ignore[arg-type]
    "train into nowhere": (lambda m, f: emorl.train(RUN, ""), "not by ''"),
    "train into a number": (lambda m, f: emorl.train(RUN, 3), "not by 3"),  # type: ignore[arg-type]
    "train with a wrong name": (
        lambda m, f: emorl.train(TINY, f / "x", settings={"train.stepz": 3}), "did you mean 'train.steps'"),
    "train with a wrong value": (
        lambda m, f: emorl.train(TINY, f / "x", settings={"train.steps": "ten"}), "train.steps must be of type int"),
    "train with a list": (lambda m, f: emorl.train(TINY, f / "x", settings=["train.steps"]), "by dotted name"),  # type: ignore[arg-type]
    "train with an absent folder": (
        lambda m, f: emorl.train("efficient-morl/folder", f / "x", settings={"data.path": f / "no"}), "not a folder"),
    "train with a wrong optimiser": (
        lambda m, f: emorl.train(replace(RUN, train=replace(RUN.train, optimizer="sgd")), f / "x"),  # type: ignore[arg-type]
        "train.optimizer must be one of"),
    "steps that are text": (lambda m, f: emorl.TrainConfig(steps="ten"), "train.steps must be a number"),  # type: ignore[arg-type]
    "a rate that is text": (lambda m, f: emorl.TrainConfig(learning_rate="fast"), "is not a schedule"),  # type: ignore[arg-type]
    "a seed that is text": (lambda m, f: emorl.DataConfig(seed="x"), "data.seed must be a whole number"),  # type: ignore[arg-type]
    "data without a name": (lambda m, f: emorl.DataConfig(None), "data.name must name"),  # type: ignore[arg-type]
    "a run of a name": (lambda m, f: emorl.RunConfig("efficient-morl"), "built from its configuration"),
    "a run of other data": (lambda m, f: emorl.RunConfig(RUN.model, "tetrominoes"), "data must be a DataConfig"),  # type: ignore[arg-type]
    "build a name": (lambda m, f: emorl.build("efficient-morl"), "built from its configuration"),
    "open absent data": (lambda m, f: emorl.open_dataset("cats", "test"), "no data set 'cats'"),
    "open a number": (lambda m, f: emorl.open_dataset(3, "test"), "not by 3"),  # type: ignore[arg-type]
    "open an absent split": (lambda m, f: emorl.open_dataset("tetrominoes", "tset"), "did you mean 'test'"),  # type: ignore[arg-type]
    "evaluate no images": (
        lambda m, f: emorl.evaluate(m, emorl.open_dataset("tetrominoes", "test"), images=0), "At least one image"),
    "evaluate another size": (
        lambda m, f: emorl.evaluate(m, emorl.open_dataset("multi-dsprites", "test"), images=1), "pixels a side"),
    "evaluate no tries": (
        lambda m, f: emorl.evaluate(m, emorl.open_dataset("tetrominoes", "test"), images=1, tries=0), "at least 1"),
}  # fmt: skip


def check(call: Callable[[], object], words: str, folder: Path) -> None:
    started = time.process_time()
    with pytest.raises(emorl.UserError) as caught:
        call()
    message = str(caught.value)
    assert words in message
    assert "\n" not in message
    assert 20 < len(message) < 500
    assert time.process_time() - started < MOST_SECONDS
    assert not list(folder.iterdir())


@pytest.mark.parametrize("name", PICTURES)
def test_what_is_no_picture_is_refused(name: str, model: Model, tmp_path: Path) -> None:
    given, words = PICTURES[name]
    check(lambda: emorl.decompose(given, model), words, tmp_path)


@pytest.mark.parametrize("name", CALLS)
def test_what_cannot_be_is_refused(name: str, model: Model, tmp_path: Path) -> None:
    call, words = CALLS[name]
    check(lambda: call(model, tmp_path), words, tmp_path)


def test_there_are_many() -> None:
    assert len(PICTURES) + len(CALLS) >= 80
