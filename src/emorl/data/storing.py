"""Storing scenes: `store` writes any data set, StoreWriter scenes whose number is not known beforehand.

Both work in "<folder>.partial" and rename it at the end, so a finished folder is always whole. `store` works in
parallel processes, and an interrupted call is continued where it stopped.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, suppress
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any, Self

import numpy as np

from emorl.data.base import Arrays, DatasetInfo, SceneDataset
from emorl.data.rows import Rows, header_of, reserve, write_rows
from emorl.data.stored import META
from emorl.errors import Unreadable, UserError
from emorl.files import cause, make_directory, read_json, write_json
from emorl.types import Progress, silent

PLAN = "plan.json"  # in a ".partial" folder: which scenes it will hold, and which chunks of them are there


def store(
    dataset: SceneDataset,
    path: Path,
    *,
    workers: int = 1,
    progress: Progress = silent,
) -> None:
    """Writes all scenes of `dataset` to the folder `path`; the bytes do not depend on the number of workers."""
    partial = partial_of(path)
    plan = {"info": asdict(dataset.info), "count": len(dataset)}
    done = begin(dataset, partial, plan)
    chunks = [start for start in range(0, len(dataset), dataset.chunk) if start not in done]
    progress(len(dataset) - sum(chunk_size(start, dataset) for start in chunks), len(dataset))

    def finish(start: int) -> None:
        done.append(start)
        write_json(partial / PLAN, {**plan, "done": done})
        progress(min(len(dataset), sum(chunk_size(start, dataset) for start in done)), len(dataset))

    if workers <= 1 or len(chunks) <= 1:
        for start in chunks:
            finish(write_chunk(dataset, partial, start))
    else:
        write_in_parallel(dataset, partial, chunks, min(workers, len(chunks)), finish)
    write_json(partial / META, {**plan, "arrays": sorted(dataset.arrays(0))})
    put_in_place(partial, path)


def write_in_parallel(
    dataset: SceneDataset, partial: Path, chunks: Sequence[int], workers: int, finish: Callable[[int], None]
) -> None:
    """Writes chunks in `workers` processes; calls `finish` with the first scene of each finished chunk."""
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        try:
            for future in as_completed(
                [pool.submit(write_chunk, dataset, partial, start) for start in chunks]
            ):
                finish(future.result())
        except BrokenProcessPool:
            raise UserError(
                f"A process that stored scenes was ended from outside, perhaps for want of memory. {partial} has "
                "the others; run the command again to go on, with fewer --workers."
            ) from None
        finally:  # after an error, chunks that have not begun are cancelled
            pool.shutdown(cancel_futures=True)


def partial_of(path: Path) -> Path:
    """Returns the folder to work in until all of `path`, which must not exist yet, is written."""
    if os.path.lexists(path) or not path.name:
        raise UserError(f"{path} exists already; delete it or choose another folder.")
    return path.with_name(path.name + ".partial")


def put_in_place(partial: Path, path: Path) -> None:
    """Renames the finished folder `partial` to `path` and deletes its plan."""
    try:
        partial.rename(path)
        (path / PLAN).unlink()
    except OSError as error:
        raise UserError(f"Cannot rename {partial} to {path}: {cause(error)}.") from None


def read_plan(partial: Path) -> dict[str, Any] | None:
    """Returns the plan of an unfinished store; None if there is none. Raises UserError if other files are there."""
    if not os.path.lexists(partial):
        return None
    if partial.is_symlink() or not partial.is_dir():
        raise UserError(f"{partial} is in the way; rename it or choose another folder.")
    if not os.path.lexists(partial / PLAN):
        try:
            is_empty = not os.listdir(partial)
        except OSError as error:
            raise Unreadable(partial, cause(error)) from None
        if not is_empty:
            raise UserError(
                f"{partial} is in the way and holds other files; rename it or choose another folder."
            )
        return None
    return read_json(partial / PLAN)


def begin(dataset: SceneDataset, partial: Path, plan: dict[str, Any]) -> list[int]:
    """Reserves the files, or finds what an interrupted call has done. Returns the first scenes of finished chunks."""
    rows = dataset.arrays(0)
    found = read_plan(partial)
    done: list[int] | None = None
    if found is not None:
        done = found.pop("done", [])  # None until all space is reserved
        starts = range(0, len(dataset), dataset.chunk)
        if found != json.loads(json.dumps(plan)) or not (done is None or is_list_of(starts, done)):
            raise UserError(f"{partial} is an unfinished store of other scenes; delete it to start anew.")
    if done is not None:
        for name in rows:
            Rows(partial / f"{name}.npy")  # raises UserError if it is damaged
        return done
    make_directory(partial)
    try:
        needed, free = (
            sum(row.nbytes for row in rows.values()) * len(dataset),
            shutil.disk_usage(partial).free,
        )
        if needed > free:
            raise UserError(
                f"Cannot store {len(dataset)} scenes in {partial}: they need {needed / 2**20:.1f} MiB and "
                f"{free / 2**20:.1f} MiB are free. Store fewer (--count), or elsewhere."
            )
        write_json(partial / PLAN, {**plan, "done": None})
        for name, row in rows.items():
            reserve(partial / f"{name}.npy", row, len(dataset))
        write_json(partial / PLAN, {**plan, "done": []})
    except (OSError, UserError) as error:
        shutil.rmtree(partial, ignore_errors=True)
        if isinstance(error, UserError):
            raise
        raise UserError(f"Cannot store {len(dataset)} scenes in {partial}: {cause(error)}.") from None
    return []


def is_list_of(starts: range, done: object) -> bool:
    """Returns whether `done` is a list that holds nothing but elements of `starts`."""
    return isinstance(done, list) and all(type(start) is int and start in starts for start in done)


def write_chunk(dataset: SceneDataset, partial: Path, start: int) -> int:
    """Writes the scenes of one chunk and returns its first one."""
    rows = [dataset.arrays(index) for index in range(start, start + chunk_size(start, dataset))]
    try:
        for name in rows[0]:
            write_rows(partial / f"{name}.npy", np.stack([row[name] for row in rows]), start)
    except OSError as error:
        raise UserError(
            f"Cannot write {partial}: {cause(error)}. What is there is kept; run the command again to go on."
        ) from None
    return start


def chunk_size(start: int, dataset: SceneDataset) -> int:
    """Returns the number of scenes in the chunk that begins at scene `start`; the last may be smaller."""
    return min(dataset.chunk, len(dataset) - start)


class StoreWriter:
    """Stores scenes one by one. Without `finish` nothing is kept; a killed process leaves a ".partial" folder.

    The header of an .npy file holds the number of rows, padded to a fixed length; `finish` overwrites it.
    """

    def __init__(self, path: Path) -> None:
        self.path, self.partial = path, partial_of(path)
        self.open = ExitStack()
        self.files: dict[str, IO[bytes]] = {}
        self.rows: Arrays = {}  # the first scene; the others must have the same arrays, types and shapes
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __enter__(self) -> Self:
        plan = read_plan(self.partial)
        if plan is not None and "stream" not in plan:
            raise UserError(
                f"{self.partial} is an unfinished store of other scenes; delete it to start anew."
            )
        shutil.rmtree(self.partial, ignore_errors=True)  # of a killed call: a stream cannot be continued
        make_directory(self.partial)
        write_json(self.partial / PLAN, {"stream": True})
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # when the disk is full, which has been reported
            self.open.close()
        shutil.rmtree(self.partial, ignore_errors=True)

    def add(self, arrays: Arrays) -> None:
        """Appends a scene, which must have the arrays, types and shapes of the first one."""
        try:
            if not self.files:
                self.begin(arrays)
            described, expected = describe(arrays), describe(self.rows)
            if described != expected:
                raise UserError(f"Scene {self.count} is made of {described}, the first one of {expected}.")
            for name, row in arrays.items():
                self.files[name].write(np.ascontiguousarray(row).data)
        except OSError as error:
            raise UserError(f"Cannot write {self.partial}: {cause(error)}.") from None
        self.count += 1

    def begin(self, arrays: Arrays) -> None:
        """Opens a file for each array of the first scene."""
        self.rows = arrays
        for name, row in arrays.items():
            file = open(self.partial / f"{name}.npy", "wb")  # noqa: SIM115, closed with the stack
            self.files[name] = self.open.enter_context(file)
            file.write(header_of(row, 0))

    def finish(self, info: DatasetInfo) -> None:
        """Writes the number of scenes and meta.json, and renames the folder: now it is whole."""
        try:
            for name, row in self.rows.items():
                self.files[name].seek(0)
                self.files[name].write(header_of(row, self.count))
                self.files[name].flush()
                os.fsync(self.files[name].fileno())
            self.open.close()
        except OSError as error:
            raise UserError(f"Cannot write {self.partial}: {cause(error)}.") from None
        meta = {"info": asdict(info), "count": self.count, "arrays": sorted(self.rows)}
        write_json(self.partial / META, meta)
        put_in_place(self.partial, self.path)


def describe(arrays: Arrays) -> str:
    """Returns names, types and shapes of arrays as text: "image uint8 (64, 64, 3), ..."."""
    return ", ".join(f"{name} {row.dtype} {row.shape}" for name, row in sorted(arrays.items()))
