"""Weights to give to others: a folder with config.json, model.safetensors and README.md, here or on the hub.

`Run.open` and every command take such a folder in place of a run directory. Nothing here contacts the network but
`push_to_hub` and `from_pretrained` with `hub=True`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import safetensors.torch

from emorl.data import DataConfig
from emorl.errors import UserError, first_line, missing
from emorl.files import check_output, is_ours, make_directory, real_path, write_bytes, write_json
from emorl.models.base import Model
from emorl.runs.card import data_of, header_of, numbers_in, page_of
from emorl.runs.checkpoint import weights_of
from emorl.runs.config import RunConfig
from emorl.runs.directory import CONFIG, MODEL, README
from emorl.runs.provenance import stamp
from emorl.runs.run import Run
from emorl.version import __version__

UNKNOWN = "unknown"  # the data of a model that is saved without its run
# A model, a run, its directory, a folder of `save_pretrained`, or the name of released weights.
Source = Model | Run | str | Path


def save_pretrained(source: Source, folder: str | Path) -> Path:
    """Writes a trained model into `folder`: config.json, model.safetensors and README.md, which is its card.

    Of a run, they say what it is, on what it was trained, and its scores if `emorl evaluate` has measured them; of a
    model alone, what it is. Returns the folder. Files that were not written by this function are never overwritten.
    """
    run: Run | None = None
    if isinstance(source, Model):
        model, config = source, RunConfig(source.config, DataConfig(UNKNOWN))
    else:
        run = source if isinstance(source, Run) else Run.open(source)
        model, config = run.model, without_places(run.config)
    folder = Path(folder)
    check_folder(folder, inputs=[] if run is None else [run.weights])
    card = new_card(run, model.title)
    make_directory(folder)
    write_bytes(folder / MODEL, safetensors.torch.save(weights_of(model), header_of(card)))
    write_json(folder / CONFIG, config.to_dict())
    write_bytes(folder / README, page_of(card, config, model.title).encode())
    return folder


def from_pretrained(source: str | Path, *, hub: bool = False, revision: str | None = None) -> Model:
    """Returns a trained model, ready for `decompose`.

    `source` is a folder of `save_pretrained`, a run directory or the name of released weights. With `hub`, it is the
    name of a repository on the Hugging Face hub, of which `revision` is downloaded.
    """
    if not hub:
        return Run.open(source).model
    with hub_errors(str(source)):
        wanted = [CONFIG, MODEL, README]
        found = hub_api().snapshot_download(str(source), revision=revision, allow_patterns=wanted)
    return Run.open(found).model


def push_to_hub(
    source: Source,
    repository: str,
    *,
    private: bool = True,
    token: str | None = None,
    message: str | None = None,
) -> str:
    """Uploads a trained model to the Hugging Face hub, as `save_pretrained` writes it. Returns the address.

    `repository` is owner/name; it is made if there is none. A folder of `save_pretrained` is uploaded as it is. Without
    a `token`, the one of `hf auth login` is used. Needs the extra "hub".
    """
    api = hub_api()
    with TemporaryDirectory() as temporary:
        is_saved = isinstance(source, str | Path) and (Path(source) / MODEL).is_file()
        folder = Path(source) if is_saved else save_pretrained(source, temporary)  # type: ignore[arg-type]
        if is_saved:
            _ = Run.open(folder).model  # raises UserError if it is damaged
        with hub_errors(repository):
            address = api.create_repo(repository, private=private, exist_ok=True, token=token)
            api.upload_folder(
                repo_id=repository,
                folder_path=folder,
                allow_patterns=[CONFIG, MODEL, README],
                commit_message=message or "Weights, settings and card",
                token=token,
            )
    return str(address)


def hub_api() -> Any:
    """Returns the interface of huggingface_hub. Raises UserError if it is not installed."""
    try:
        from huggingface_hub import HfApi
    except ImportError:
        raise missing("huggingface_hub", "hub", "The hub") from None
    return HfApi(library_name="emorl", library_version=__version__)


@contextmanager
def hub_errors(repository: str) -> Iterator[None]:
    """Raises UserError for whatever goes wrong with the hub: names, rights, the network."""
    try:
        yield
    except Exception as error:  # the library and those below it have many types
        raise UserError(f"The hub has failed with {repository!r}: {first_line(error)}.") from None


def without_places(config: RunConfig) -> RunConfig:
    """Returns the settings without paths of this machine."""
    start = config.train.start_from
    is_path = start is not None and (os.path.isabs(start) or os.path.exists(start))
    train = replace(config.train, start_from=None) if is_path else config.train
    return replace(config, data=replace(config.data, path=None), train=train)


def check_folder(folder: Path, *, inputs: list[Path]) -> None:
    """Raises UserError if to write the three files would destroy an input, or anything that is not ours."""
    if os.path.lexists(folder) and not folder.is_dir():
        raise UserError(f"{folder} is a file, not a folder for a model: choose another.")
    for name in (MODEL, README):
        check_output(folder / name, inputs=inputs)
    if os.path.lexists(folder / CONFIG) and not is_ours(folder / MODEL):
        raise UserError(
            f"{folder} holds a {CONFIG} already, of a run or of something else: choose another folder."
        )


def new_card(run: Run | None, title: str) -> dict[str, Any]:
    """Returns what is known of the weights of a run; of a model without one, its title and this package."""
    if run is None:
        bare = {"name": title, "data": UNKNOWN, "steps": 0, "seed": 0, "cpu_minutes": None, "scores": {}}
        return {**bare, "version": __version__, "environment": stamp()}
    return {
        "name": str(run.card.get("name") or real_path(run.name).name),
        "model": run.kind,
        "data": str(run.card.get("data") or data_of(run.config.data)),
        "steps": run.steps_saved,
        "seed": run.seed,
        "cpu_minutes": None if run.cpu_minutes is None else round(run.cpu_minutes, 1),
        "scores": numbers_in(run.scores),
        "version": __version__,
        "environment": run.environment,
    }
