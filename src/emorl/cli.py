"""The command line: emorl train | evaluate | decompose | data | list."""

from __future__ import annotations

import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, make_dataclass
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
import tyro
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from emorl.data import DATASETS, DataConfig, SceneDataset, Split, open_dataset
from emorl.data.images import read_pixels
from emorl.data.published import convert
from emorl.data.stored import store
from emorl.errors import UserError, nearest
from emorl.evaluation.evaluate import Scores, evaluate
from emorl.files import make_directory, write_json
from emorl.models import MODELS
from emorl.models.base import Model
from emorl.presets import PRESETS
from emorl.pretrained import card_of, load_with_config, released
from emorl.probability import noise_from, noise_per_image
from emorl.report.images import (
    grid,
    save_decomposition,
    save_picture,
    scene_row,
    scenes_apart,
)
from emorl.training.run import RunConfig
from emorl.training.signals import Interrupted
from emorl.training.trainer import train

DESCRIPTION = """Discovers the objects in images without labels. Begin with `emorl list`, then
`emorl train efficient-morl/tetrominoes-fast --out runs/a` and `emorl evaluate runs/a`."""

Commands = Mapping[str, Callable[..., None]]


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs one command. A user's mistake is one line on stderr and exit status 2."""
    arguments = sys.argv[1:] if arguments is None else list(arguments)
    warnings.showwarning = lambda message, *_, **__: print(f"emorl: {message}", file=sys.stderr)
    try:
        if arguments[:1] == ["train"] and arguments[1:] and not arguments[1].startswith("-"):
            return train_command(arguments[1], arguments[2:])
        if arguments[:1] == ["data"]:
            actions: Commands = {
                "preview": preview_command,
                "store": store_command,
                "convert": convert_command,
            }
            return dispatch(actions, arguments[1:], prog="emorl data", description=data_command.__doc__ or "")
        commands: Commands = {
            "train": train_help,
            "evaluate": evaluate_command,
            "decompose": decompose_command,
            "data": data_command,
            "list": list_command,
        }
        dispatch(commands, arguments, prog="emorl", description=DESCRIPTION)
    except UserError as error:
        if os.environ.get("LOCAL_RANK", "0") == "0":  # of several training processes, one speaks
            print(f"emorl: {error}", file=sys.stderr)
        sys.exit(2)
    except Interrupted as stop:
        sys.exit(128 + stop.signum)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:  # the reader of our output has left
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def dispatch(commands: Commands, arguments: Sequence[str], *, prog: str, description: str) -> None:
    tyro.extras.subcommand_cli_from_dict(
        dict(commands),
        prog=prog,
        description=description,
        args=arguments,
        config=(tyro.conf.FlagCreatePairsOff,),
    )


def resolve(name: str) -> RunConfig:
    """Returns the preset of that name, or the configuration in that file."""
    if name in PRESETS:
        return PRESETS[name]
    if name.endswith(".json") or Path(name).exists():
        return RunConfig.read(Path(name))
    raise UserError(f"There is no preset {name!r}{nearest(name, PRESETS)}")


def train_command(name: str, arguments: Sequence[str]) -> None:
    """Trains with the named settings, each of which can be overridden: the options follow the model of the preset."""
    run = resolve(name)
    settings = make_dataclass(
        "Train",
        [
            (
                "out",
                Path,
                field(default=Path("runs") / Path(name).with_suffix("").as_posix().replace("/", "-")),
            ),
            ("resume", bool, field(default=False)),
            ("model", type(run.model), field(default=run.model)),
            ("data", DataConfig, field(default=run.data)),
            ("train", type(run.train), field(default=run.train)),
        ],
    )
    settings.__doc__ = f"""Train {name}.

    Args:
        out: Run directory: configuration, metrics, checkpoints and weights go there.
        resume: Continue the run in that directory.
    """
    given: Any = tyro.cli(
        settings, args=arguments, prog=f"emorl train {name}", config=(tyro.conf.FlagCreatePairsOff,)
    )
    train(RunConfig(given.model, given.data, given.train), given.out, resume=given.resume)


def train_help(
    preset: tyro.conf.Positional[str], out: Path = Path("runs/PRESET"), resume: bool = False
) -> None:
    """Learn to decompose images; `emorl train PRESET --help` lists every setting.

    Args:
        preset: A name from `emorl list`, or a config.json. It comes first.
        out: Run directory: configuration, metrics, checkpoints and weights go there.
        resume: Continue the run in that directory.
    """
    raise UserError(f"Name the preset first: emorl train {preset} --out {out}")


def evaluate_command(
    run: tyro.conf.Positional[str],
    slots: int | None = None,
    steps: int | None = None,
    images: int | None = None,
    seed: int = 0,
    means: bool = False,
    tries: int = 1,
    dci: Literal["no", "fast", "exact"] = "no",
    split: Split = "test",
    json: bool = False,
    picture: Path | None = None,
) -> None:
    """Score a trained model on held-out scenes; the scores also go to RUN/scores.json of a run directory.

    Args:
        run: Run directory of a training, or the name of released weights.
        slots: K, number of slots; as trained if left out.
        steps: I, refinement steps; as configured if left out.
        images: Number of scenes; all of the split if left out.
        seed: Of the posterior samples.
        means: Take posteriors at their means; the paper scores samples.
        tries: Infer so often and keep, for each image, what reconstructs it best; the paper scores one.
        dci: Also measure how disentangled the slots are; "exact" trees take minutes.
        split: Which scenes.
        json: Print one JSON object instead of a table.
        picture: Draw the first eight scenes, taken apart, into this PNG.
    """
    model, config = load_with_config(run)
    scenes = open_dataset(config.data, split)
    with progress_bar("evaluating") as progress:
        budget: Any = {"num_slots": slots, "num_steps": steps, "tries": tries}
        scores = evaluate(model, scenes, images=images, seed=seed, means=means, progress=progress, **budget)
    extra = {} if dci == "no" else measure_dci(model, scenes, images, seed, fast=dci == "fast")
    report(scores, extra, as_json=json)
    if picture is not None:
        save_picture(scenes_apart(model, scenes, sample=not means, **budget), picture)
        say(f"Drew {picture}: image, reconstruction, segmentation, and one panel per slot.")
    try:
        if Path(run).is_dir():
            write_json(Path(run) / "scores.json", {"split": split, **scores.to_dict()})
    except UserError as error:
        warnings.warn(str(error), stacklevel=1)


def measure_dci(
    model: Model, scenes: SceneDataset, images: int | None, seed: int, *, fast: bool
) -> dict[str, float]:
    from emorl.evaluation.dci import evaluate_dci  # here, because scikit-learn takes a second to import

    found = evaluate_dci(model, scenes, images=images, seed=seed, fast=fast)
    return {f"dci_{name}": value for name, value in found.summary().items()}


def report(scores: Scores, extra: Mapping[str, float], *, as_json: bool) -> None:
    if as_json:
        print(json.dumps({**scores.summary(), **extra}))
        return
    for name in scores.values:
        print(f"{name:<19} {scores.mean(name):12.5g}  ± {scores.standard_error(name):.2g}")
    for name, value in extra.items():
        print(f"{name:<29} {value:.5g}")
    print("  ".join(f"{name} {value}" for name, value in scores.settings.items()))


def decompose_command(
    run: tyro.conf.Positional[str],
    images: tyro.conf.Positional[tuple[Path, ...]],
    out: Path,
    slots: int | None = None,
    steps: int | None = None,
    sample: bool = False,
    tries: int = 1,
    seed: int = 0,
) -> None:
    """Take images apart: a PNG with one panel per slot, and the arrays as .npz, for each.

    Args:
        run: Run directory of a training, or the name of released weights.
        images: Image files of the size the model was trained on.
        out: Folder for the results.
        slots: K, number of slots; as trained if left out.
        steps: I, refinement steps; as configured if left out.
        sample: Sample posteriors instead of taking their means.
        tries: Infer so often and keep, for each image, what reconstructs it best.
        seed: Of the random start of the slots, and of samples.
    """
    if not images:
        raise UserError("Name at least one image: emorl decompose RUN IMAGE... --out DIR")
    model, _ = load_with_config(run)
    loaded = [open_image(path, model) for path in images]  # all of them first: nothing is half done
    make_directory(out)
    for number, (path, x) in enumerate(zip(images, loaded, strict=True)):
        with noise_from(noise_per_image([seed])):
            parts = model.decompose(x[None], num_slots=slots, num_steps=steps, sample=sample, tries=tries)
        is_taken = path.stem in {other.stem for other in images[:number]}
        target = out / (f"{path.stem}-{number}" if is_taken else path.stem)
        save_decomposition(target, x, parts)
        say(f"{path} -> {target}.png, {target}.npz")


def open_image(path: Path, model: Model) -> torch.Tensor:
    """Reads an image that fits `model`, or says why it does not."""
    pixels = read_pixels(path)
    size = model.config.image_size
    if pixels.shape[:2] != (size, size):
        raise UserError(
            f"{path} is {pixels.shape[1]}x{pixels.shape[0]}; this model takes {size}x{size} images."
        )
    return torch.from_numpy(pixels.copy()).permute(2, 0, 1).float() / 255


def preview_command(
    name: tyro.conf.Positional[str], out: Path, split: Split = "train", count: int = 8, seed: int = 0
) -> None:
    """Draw scenes with their segmentation.

    Args:
        name: One of the data sets of `emorl list`.
        out: The PNG to write.
        split: Which scenes.
        count: How many.
        seed: Of the generator.
    """
    scenes = open_dataset(DataConfig(name, seed=seed), split)
    rows = [scene_row(scenes[index]) for index in range(min(at_least_one(count), len(scenes)))]
    save_picture(grid([list(chain(*rows[first : first + 4])) for first in range(0, len(rows), 4)]), out)
    say(f"Drew {out}: image and segmentation of {len(rows)} scenes.")


def store_command(
    name: tyro.conf.Positional[str],
    out: Path,
    count: int = 60_640,
    seed: int = 0,
    workers: int = os.cpu_count() or 1,
) -> None:
    """Make scenes once and keep them, for --data.path. Can be interrupted and run again.

    Args:
        name: One of the data sets of `emorl list`.
        out: The folder to write.
        count: How many scenes; the default holds all splits.
        seed: Of the generator.
        workers: Processes; their number does not change the result.
    """
    if name not in DATASETS:
        raise UserError(f"There is no data set {name!r}{nearest(name, DATASETS)}")
    dataset = DATASETS[name](seed=seed, length=at_least_one(count))
    make_directory(out.parent)
    with progress_bar("storing") as progress:
        store(dataset, out, workers=workers, progress=progress)
    say(f"Stored {count} scenes. Use them with --data.path {out}")


def convert_command(
    file: tyro.conf.Positional[Path],
    name: Annotated[str, tyro.conf.arg(name="as")],
    out: Path,
    limit: int | None = None,
    group: str | None = None,
) -> None:
    """Turn a published file into stored scenes, for --data.path.

    Args:
        file: A .tfrecords file of DeepMind's multi-object data sets, or an .h5 file of EfficientMORL's authors.
        name: Which data set it is: tetrominoes, multi-dsprites, clevr6, clevr10, objects-room, ...
        out: The folder to write.
        limit: Stop after so many scenes.
        group: Of an .h5 file: train, val or test. Needed only if there are several.
    """
    make_directory(out.parent)
    with progress_bar("converting") as progress:
        limit = limit if limit is None else at_least_one(limit)
        count = convert(file, name, out, limit=limit, group=group, progress=progress)
    say(f"Stored {count} scenes. Use them with --data.name {name} --data.path {out}")


def at_least_one(count: int) -> int:
    if count < 1:
        raise UserError(f"--count must be at least 1, not {count}.")
    return count


def data_command() -> None:
    """Look at scenes (preview), make them once and keep them (store), or read published files (convert)."""


def list_command(
    what: tyro.conf.Positional[Literal["all", "models", "datasets", "presets", "weights"]] = "all",
) -> None:
    """Name the models, data sets, presets and released weights there are.

    Args:
        what: All of them, or one kind.
    """
    kinds: dict[str, Iterator[tuple[str, str]]] = {
        "models": ((name, (model.__doc__ or "").splitlines()[0]) for name, model in MODELS.items()),
        "datasets": ((name, make(length=1).info.description) for name, make in DATASETS.items()),
        "presets": (
            (name, f"{run.train.steps} steps of {run.train.batch_size} images")
            for name, run in PRESETS.items()
        ),
        "weights": (
            (name, f"ARI {card_of(name)['scores']['ari']:.3f} on held-out scenes") for name in released()
        ),
    }
    for kind, lines in kinds.items():
        if what in ("all", kind):
            print(kind)
            for name, text in lines:
                print(f"  {name:<34} {text}")


def say(message: str) -> None:
    print(message, file=sys.stderr)


@contextmanager
def progress_bar(title: str) -> Iterator[Callable[[int, int], None]]:
    """A bar on a terminal, nothing elsewhere. Yields a function of (done, total)."""
    console = Console(stderr=True)
    columns = (TextColumn(title), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)
