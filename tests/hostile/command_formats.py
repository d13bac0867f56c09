"""Commands on files of data, pictures, cards and results, where the other formats have the functions below them.

A format here is a command and one of their formats: to read a variant is to run the command on it. Commands on
runs are in test_hostile_commands.py.
"""

from __future__ import annotations

import io
import os
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from corpus import Format
from formats import FORMATS
from run_formats import RUN_FORMATS, file_of

from emorl.cli import main
from emorl.errors import UserError
from emorl.runs import run as runs
from emorl.runs.directory import CONFIG
from tiny import TINY

ONE_EACH = "--data.train-size 1 --data.test-size 1 --data.validation-size 1"
# It always ends with one line: no row has that name. With another one it would train for minutes.
NO_ROW = "reproduce table-1 --scale tiny --only nothing --out ."

# Command -> the formats of FILE. A good sample makes something that is called "o", but for the last three.
LINES: dict[str, tuple[str, ...]] = {
    "data convert FILE --as tetrominoes --out o": ("records", "packed records", "h5"),
    "data preview tetrominoes --path FILE --out o.png": ("stored",),
    "data preview folder --path FILE --size 8 --out o.png": ("folder",),
    "decompose RUN FILE --out o": ("png", "jpg", "webp", "bmp", "tif", "gif"),
    "evaluate RUN --data folder --path FILE --images 1 --picture o.png": ("folder",),
    f"train {TINY} --data.path FILE {ONE_EACH} --train.batch-size 1 --train.steps 1 --out o": ("stored",),
    "data store tetrominoes --count 3 --workers 1 --out t": ("unfinished store",),
    f"bench {TINY} --quick --sizes 35 --steps 0 --repeats 1 --out .": ("result",),
    NO_ROW: ("result",),
    "list weights": ("card",),
}
PLACES = {"bench": "bench.json", "reproduce": "tiny/table-1.json"}  # where these look for a result


def run(line: str, path: Path) -> None:
    """Runs a command on a file, in the folder of the file. Raises UserError if it ends with one line."""
    folder, command = path.parent, line.split()[0]
    if "RUN" in line:
        file_of(CONFIG)(folder)
    if command in PLACES and os.path.lexists(path):
        (folder / PLACES[command]).parent.mkdir(exist_ok=True)
        path.rename(folder / PLACES[command])
    words = [{"FILE": str(path), "RUN": str(folder / "run")}.get(word, word) for word in line.split()]
    told = io.StringIO()
    status: object = 0
    with (
        chdir(folder),
        redirect_stdout(io.StringIO()),
        redirect_stderr(told),
        warnings.catch_warnings(),  # they are printed, as on the command line
        mock.patch("emorl.cli.bench.keep_freed_memory"),  # which would be for all tests after this one
        mock.patch(
            "emorl.experiments.figure_10.peak_memory", lambda passes: [2**20] * len(passes)
        ),  # takes seconds
        mock.patch.object(runs, "FOLDER", path.parents[1] if command == "list" else runs.FOLDER),
    ):
        warnings.simplefilter("always")
        try:
            main(words)
        except SystemExit as ended:
            status = ended.code
    said = told.getvalue()
    assert "Traceback" not in said, said
    assert status in (0, 2), said
    if status == 2:
        last = said.splitlines()[-1]
        assert last.startswith("emorl: "), said
        raise UserError(last)
    assert " o" not in line or list(folder.glob("o*")), said


def on(line: str, form: Format) -> Format:
    """The format of a command on files of a format."""
    return Format(form.make, lambda path: run(line, path), form.own)


COMMAND_FORMATS: dict[str, Format] = {
    f"{line.split(' --')[0]} ({name})": on(line, (FORMATS | RUN_FORMATS)[name])
    for line, names in LINES.items()
    for name in names
}
