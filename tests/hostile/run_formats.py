"""The files of a run, as formats.py has those of data: settings, weights, checkpoints, logs, scores."""

from __future__ import annotations

import io
import json
import math
import warnings
import zipfile
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch
import torch
from card_formats import CARD, IMAGE, edited
from corpus import Format, Make
from other_formats import OTHERS

from emorl.experiments.results import Result, Row
from emorl.experiments.tables import provenance, summary
from emorl.models import build
from emorl.runs.card import header_of
from emorl.runs.checkpoint import load_checkpoint, shape_of_model
from emorl.runs.config import RunConfig
from emorl.runs.directory import (
    CHECKPOINT,
    CONFIG,
    ENVIRONMENT,
    HISTORY,
    METRICS_FILE,
    MODEL,
    SCORES,
    WEIGHTS,
    read_history,
    read_metrics,
)
from emorl.runs.run import Run
from emorl.training.curriculum import Curriculum
from emorl.training.optimizer import build_optimizer
from emorl.training.setup import restore
from emorl.training.trainer import train
from tiny import tiny

SCORED = {"split": "test", "ari": 0.5, "images": 3, "per_image": {"ari": [[0.4, 0.5, 0.6]]}}


@cache
def good() -> dict[str, bytes]:
    """The files of a run of two steps, by name."""
    with TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        run = tiny(steps=2, evaluate_images=1, log_every=1)
        train(replace(run, data=replace(run.data, test_size=8)), directory)  # a release scores all of them
        found = {path.name: path.read_bytes() for path in directory.iterdir()}
    return found | {SCORES: json.dumps(SCORED).encode()}


def file_of(name: str, change: Callable[[bytes], bytes] = lambda content: content) -> Make:
    """Makes a run directory whose file `name` is changed; only that file is damaged further."""

    def make(folder: Path) -> Path:
        directory = folder / "run"
        directory.mkdir()
        for own in (CONFIG, WEIGHTS, CHECKPOINT, METRICS_FILE, HISTORY, SCORES, ENVIRONMENT):
            (directory / own).write_bytes(change(good()[own]) if own == name else good()[own])
        return directory / name

    return make


def read_config(path: Path) -> None:
    config = RunConfig.read(path)
    assert RunConfig.from_dict(config.to_dict()) == config
    shape_of_model(config.model)


CONFIGS: dict[str, Callable[[bytes], bytes]] = {
    "no model": edited(lambda run: run.update(model=None)),
    "kind is a list": edited(lambda run: run["model"].update(kind=[])),
    "encoder is a number": edited(lambda run: run["model"].update(encoder=3)),
    "data is text": edited(lambda run: run.update(data="tetrominoes")),
    "huge layers": edited(lambda run: run["model"]["decoder"].update(channels=[2**62])),
    "huge image": edited(lambda run: run["model"].update(image_size=2**62)),
    "nested": lambda content: b'{"model": ' + b"[" * 100_000 + b"]" * 100_000 + b"}",
    "old rate is text": edited(lambda run: run["train"].update(warm_up=1, learning_rate="x")),
    "old rate is huge": lambda content: (
        b'{"model": {"kind": "iodine"}, "train": {"warm_up": 9, "learning_rate": 1' + b"0" * 400 + b"}}"
    ),
    "old curriculum": edited(lambda run: run["train"].update(curriculum=[1, [2]])),
    "NaN": edited(lambda run: run["train"].update(max_grad_norm=math.nan)),
    "ten million lists": lambda content: b'{"model": [' + b"[]," * 10**7 + b"[]]}",
    "long number": lambda content: b'{"train": {"seed": ' + b"9" * 10_000 + b"}}",
}


def read_model(path: Path) -> None:
    model = Run.open(path.parent).model
    assert model.decompose(IMAGE, seed=0).image.isfinite().all()


def tensors(edit: Callable[[dict[str, torch.Tensor]], object]) -> Callable[[bytes], bytes]:
    """Returns what does `edit` to the tensors of a file of weights."""

    def change(content: bytes) -> bytes:
        found = safetensors.torch.load(content)
        edit(found)
        return safetensors.torch.save(found)

    return change


TENSORS: dict[str, Callable[[bytes], bytes]] = {
    "not finite": tensors(lambda found: found.update({name: t * math.nan for name, t in found.items()})),
    "huge": tensors(
        lambda found: found.update({name: t * 1e30 for name, t in found.items() if t.is_floating_point()})
    ),
    "of 64 bits": tensors(lambda found: found.update({name: t.double() for name, t in found.items()})),
    "one too many": tensors(lambda found: found.update(extra=torch.zeros(1))),
    "one too few": tensors(lambda found: found.popitem()),
    "transposed": tensors(
        lambda found: found.update({name: t.mT.contiguous() for name, t in found.items() if t.ndim == 2})
    ),
    "none": tensors(lambda found: found.clear()),
    "header of 2**63 bytes": lambda content: (2**63 - 1).to_bytes(8, "little") + content[8:],
}


def read_state(path: Path) -> None:
    config = tiny(steps=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # that it is damaged
        checkpoint = load_checkpoint(path.parent)
    if checkpoint is None:  # as in a directory that has none yet
        return
    model = build(config.model)
    curriculum = Curriculum(config.train.num_steps, config.train.drop_below, config.train.steps)
    progress = restore(checkpoint, model, build_optimizer(model, config.train), curriculum, path.parent)
    assert progress.step >= 0
    assert all(tensor.isfinite().all() for tensor in model.state_dict().values())


def state(edit: Callable[[dict[str, Any]], object]) -> Callable[[bytes], bytes]:
    """Returns what does `edit` to a checkpoint."""

    def change(content: bytes) -> bytes:
        found, buffer = torch.load(io.BytesIO(content), weights_only=True), io.BytesIO()
        edit(found)
        torch.save(found, buffer)
        return buffer.getvalue()

    return change


def deflated(content: bytes) -> bytes:
    """A small archive that becomes 500 MB."""
    buffer = io.BytesIO()
    with (
        zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive,
        archive.open("x/data.pkl", "w") as file,
    ):
        for _ in range(50):
            file.write(bytes(10**7))
    return buffer.getvalue()


def each_tensor(values: dict[Any, Any], change: Callable[[torch.Tensor], torch.Tensor]) -> object:
    """Changes all tensors among `values`, which are returned."""
    values.update({name: change(t) for name, t in values.items() if isinstance(t, torch.Tensor)})
    return values


def with_pickle(index: bytes) -> Callable[[bytes], bytes]:
    """Returns what puts another pickle into a checkpoint."""

    def change(content: bytes) -> bytes:
        buffer = io.BytesIO()
        with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(buffer, "w") as new:
            for name in old.namelist():
                new.writestr(name, index if name.endswith(".pkl") else old.read(name))
        return buffer.getvalue()

    return change


STATES: dict[str, Callable[[bytes], bytes]] = {
    "nothing": state(lambda found: found.clear()),
    "no optimiser": state(lambda found: found.pop("optimizer")),
    "no weights": state(lambda found: found["model"].clear()),
    "weights are text": state(lambda found: found["model"].update(dict.fromkeys(found["model"], "x"))),
    "step is huge": state(lambda found: found["progress"].update(step=10**12)),
    "step is text": state(lambda found: found["progress"].update(step="x")),
    "time is not finite": state(lambda found: found["progress"].update(seconds=math.nan)),
    "curriculum of others": state(lambda found: found["curriculum"].update(x=[1, {}])),
    "bomb": deflated,
    "names are no text": state(lambda found: found["model"].update({("x",): torch.zeros(1)})),
    "sparse": state(lambda found: each_tensor(found["model"], torch.Tensor.to_sparse)),
    "without values": state(lambda found: each_tensor(found["model"], lambda t: t.to("meta"))),
    "complex averages": state(lambda found: [
        each_tensor(values, lambda t: t.to(torch.complex64)) for values in found["optimizer"]["state"].values()
    ]),
    "20 GB in a few bytes": with_pickle(b"\x80\x02cbuiltins\nbytearray\n\x8a\x05\x00\xc8\x17\xa8\x04\x85R."),
    "a long number": with_pickle(b"\x80\x02\x8b\x00\x00\x00\x01" + b"\x7f" * 2**24 + b"."),
}  # fmt: skip


def read_log(path: Path) -> None:
    run = Run.open(path.parent)
    assert all(record["step"] >= 0 for record in read_metrics(path.parent))
    assert all(
        math.isfinite(value) for record in run.metrics for value in record.values() if value is not None
    )
    assert run.steps_done >= 0
    assert run.cpu_minutes is None or isinstance(run.cpu_minutes, float)
    _ = run.is_finished  # must not raise either


def read_events(path: Path) -> None:
    assert all("event" in record for record in read_history(path.parent))


def read_environment(path: Path) -> None:
    assert isinstance(Run.open(path.parent).environment, dict)


def make_result(folder: Path) -> Path:
    """What `emorl reproduce` writes."""
    rows = [Row("a, b", {"ari": 0.5, "mse": 1e-3}, seed=1, config={"model": {}}), Row("c", {"ari": 1})]
    Result("table-1", rows, {"commit": "abc", "cpu": "x"}).write(folder / "table-1.json")
    return folder / "table-1.json"


def read_result(path: Path) -> None:
    result = Result.read(path)
    assert provenance(result)
    assert all(isinstance(result.has_provenance(row), bool) for row in result.rows)
    assert all(isinstance(entry["label"], str) for entry in summary(result.rows, ()))


def result_with(change: Callable[[bytes], bytes]) -> Make:
    def make(folder: Path) -> Path:
        path = make_result(folder)
        path.write_bytes(change(path.read_bytes()))
        return path

    return make


RESULTS: dict[str, Callable[[bytes], bytes]] = {
    "no rows": edited(lambda result: result.pop("rows")),
    "rows are numbers": edited(lambda result: result.update(rows=[1, 2])),
    "rows are text": edited(lambda result: result.update(rows="rows")),
    "label is a list": edited(lambda result: result["rows"][0].update(label=[])),
    "values are a list": edited(lambda result: result["rows"][0].update(values=[1])),
    "stamp is a number": edited(lambda result: result.update(stamp=3)),
    "config of another": edited(lambda result: result["rows"][0].update(config="x")),
    "configs are a list": edited(lambda result: result.update(configs=[])),
    "something more": edited(lambda result: result.update(more=1)),
}


def read_scores(path: Path) -> None:
    assert isinstance(Run.open(path.parent).scores, dict)


LINES: dict[str, Callable[[bytes], bytes]] = {
    "text": lambda content: content + b'{"step": "x"}\n',
    "list": lambda content: content + b"[1]\n",
    "huge step": lambda content: content + b'{"step": 1e999}\n',
    "nested": lambda content: content + b"[" * 100_000 + b"\n",
    "forty million lists": lambda content: content + b"[" + b"[]," * (4 * 10**7) + b"[]]\n",
    "integers beyond floats": lambda content: content + b'{"step": 1, "loss": 1' + b"0" * 400 + b"}\n",
    "infinite": lambda content: content + b'{"step": 1, "loss": 1e999}\n',
    "not UTF-8": lambda content: content + b'{"step": 1, "\xff": 2}\n',
}


def make_saved(folder: Path, change: Callable[[dict[str, str]], object] = lambda header: None) -> Path:
    """A folder of `save_pretrained`, with a changed header; its file of weights alone is damaged further."""
    scores, where = json.dumps(SCORED | {"per_image": None}), json.dumps({"version": "0.1"})
    header = header_of({"name": "x", "data": "y", "steps": 2, "seed": 0, "cpu_minutes": 1.5}) | {
        "scores": scores,
        "environment": where,
    }
    change(header)
    (folder / CONFIG).write_bytes(good()[CONFIG])
    (folder / MODEL).write_bytes(safetensors.torch.save(safetensors.torch.load(good()[WEIGHTS]), header))
    return folder / MODEL


def read_saved(path: Path) -> None:
    run = Run.open(path.parent)
    assert isinstance(run.scores, dict)
    assert isinstance(run.environment, dict)
    assert run.steps_done >= 0
    assert run.cpu_minutes is None or isinstance(run.cpu_minutes, float)
    assert run.model.decompose(IMAGE, seed=0).image.isfinite().all()


HEADERS: dict[str, Callable[[dict[str, str]], object]] = {
    "no scores": lambda header: header.pop("scores"),
    "scores are a list": lambda header: header.update(scores="[1]"),
    "scores are nested": lambda header: header.update(scores="[" * 100_000),
    "steps are below 0": lambda header: header.update(steps="-1"),
    "steps are huge": lambda header: header.update(steps="9" * 10_000),
    "a checksum and a curve": lambda header: header.update(sha256="x", curve="y"),
}


def form(name: str, read: Callable[[Path], object], own: dict[str, Callable[[bytes], bytes]]) -> Format:
    return Format(file_of(name), read, {what: file_of(name, change) for what, change in own.items()})


RUN_FORMATS: dict[str, Format] = {
    "config": form(CONFIG, read_config, CONFIGS),
    "weights": form(WEIGHTS, read_model, TENSORS),
    "checkpoint": form(CHECKPOINT, read_state, STATES),
    "metrics": form(METRICS_FILE, read_log, LINES),
    "history": form(HISTORY, read_events, LINES),
    "scores": form(SCORES, read_scores, {"list": lambda content: b"[]"}),
    "card": CARD,
    "saved": Format(
        make_saved, read_saved, {what: partial(make_saved, change=change) for what, change in HEADERS.items()}
    ),
    "environment": form(ENVIRONMENT, read_environment, {"list": lambda content: b"[]"}),
    "result": Format(
        make_result, read_result, {what: result_with(change) for what, change in RESULTS.items()}
    ),
    **OTHERS,
}
