"""Stored scenes: a folder of memory-mapped .npy files beside a meta.json.

`store` writes any dataset once, in parallel processes. It works in "<folder>.partial" and renames at the end, so a
finished folder is always whole and an interrupted one is continued where it stopped.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import ExitStack
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import IO, Any, Self

import numpy as np
from numpy.lib.format import open_memmap, write_array_header_1_0

from emorl.data.base import Array, Arrays, DatasetInfo, SceneDataset
from emorl.errors import UserError
from emorl.files import make_directory, write_json


class StoredScenes(SceneDataset):
    """Reads what `store` wrote."""

    def __init__(self, path: Path) -> None:
        try:
            meta = json.loads((path / "meta.json").read_text())
            self.info = DatasetInfo(**meta["info"])
            self.files = {name: np.load(path / f"{name}.npy", mmap_mode="r") for name in meta["arrays"]}
        except FileNotFoundError as error:
            raise UserError(f"{path} holds no stored scenes: {error.filename} is missing. Make them with "
                            "`emorl data store NAME --out FOLDER`.") from None  # fmt: skip
        except (ValueError, TypeError, KeyError, OSError) as error:
            raise UserError(
                f"{path} holds damaged scenes ({error}); delete the folder and store them again."
            ) from None
        self.length = int(meta["count"])
        if any(len(file) != self.length for file in self.files.values()):
            raise UserError(f"{path} holds damaged scenes: not every array has {self.length} rows.")

    def __len__(self) -> int:
        return self.length

    def arrays(self, index: int) -> Arrays:
        return {name: np.asarray(file[index]) for name, file in self.files.items()}


def store(
    dataset: SceneDataset,
    path: Path,
    *,
    workers: int = 1,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Writes all scenes of `dataset` to the folder `path`; the bytes do not depend on the number of workers."""
    if path.exists():
        raise UserError(f"{path} exists already; delete it or choose another folder.")
    partial = path.with_name(path.name + ".partial")
    plan = {"info": asdict(dataset.info), "count": len(dataset)}
    done = begin(dataset, partial, plan)
    chunks = [start for start in range(0, len(dataset), dataset.chunk) if start not in done]
    progress(len(dataset) - sum(chunk_size(start, dataset) for start in chunks), len(dataset))

    def finish(start: int) -> None:
        done.append(start)
        write_json(partial / "plan.json", {**plan, "done": done})
        progress(min(len(dataset), sum(chunk_size(start, dataset) for start in done)), len(dataset))

    if workers <= 1 or len(chunks) <= 1:
        for start in chunks:
            finish(write_chunk(dataset, partial, start))
    else:
        with ProcessPoolExecutor(min(workers, len(chunks)), mp_context=get_context("spawn")) as pool:
            for future in as_completed(
                [pool.submit(write_chunk, dataset, partial, start) for start in chunks]
            ):
                finish(future.result())
    write_json(partial / "meta.json", {**plan, "arrays": sorted(dataset.arrays(0))})
    (partial / "plan.json").unlink()
    partial.rename(path)


def begin(dataset: SceneDataset, partial: Path, plan: dict[str, Any]) -> list[int]:
    """Allocates the files, or finds what an interrupted call has done. Returns the first scenes of finished chunks."""
    if (partial / "plan.json").exists():
        found = json.loads((partial / "plan.json").read_text())
        done: list[int] = found.pop("done")
        if found != json.loads(json.dumps(plan)):
            raise UserError(f"{partial} is an unfinished store of other scenes; delete it to start anew.")
        return done
    partial.mkdir(parents=True, exist_ok=True)
    for name, row in dataset.arrays(0).items():
        open_memmap(partial / f"{name}.npy", mode="w+", dtype=row.dtype, shape=(len(dataset), *row.shape))
    write_json(partial / "plan.json", {**plan, "done": []})
    return []


def write_chunk(dataset: SceneDataset, partial: Path, start: int) -> int:
    """Writes the scenes of one chunk and returns its first one."""
    rows = [dataset.arrays(index) for index in range(start, start + chunk_size(start, dataset))]
    for name in rows[0]:
        file: Array = np.load(partial / f"{name}.npy", mmap_mode="r+")
        file[start : start + len(rows)] = np.stack([row[name] for row in rows])
        file.flush()  # type: ignore[attr-defined]
    return start


def chunk_size(start: int, dataset: SceneDataset) -> int:
    return min(dataset.chunk, len(dataset) - start)


class StoreWriter:
    """Stores scenes whose number is not known beforehand. Without `finish` nothing is left but a ".partial" folder.

    An .npy file tells its number of rows in a header with room to grow, which `finish` writes again.
    """

    def __init__(self, path: Path) -> None:
        if path.exists():
            raise UserError(f"{path} exists already; delete it or choose another folder.")
        self.path, self.partial = path, path.with_name(path.name + ".partial")
        self.open = ExitStack()
        self.files: dict[str, IO[bytes]] = {}
        self.rows: Arrays = {}  # the first scene: what the others must look like
        self.count = 0

    def __len__(self) -> int:
        return self.count

    def __enter__(self) -> Self:
        shutil.rmtree(
            self.partial, ignore_errors=True
        )  # of an interrupted call: a stream cannot be continued
        make_directory(self.partial)
        return self

    def __exit__(self, *_: object) -> None:
        self.open.close()

    def add(self, arrays: Arrays) -> None:
        try:
            if not self.files:
                self.rows = arrays
                for name in arrays:
                    file = open(self.partial / f"{name}.npy", "wb")  # noqa: SIM115, closed with the stack
                    self.files[name] = self.open.enter_context(file)
                self.write_headers()
            for name, row in arrays.items():
                self.files[name].write(np.ascontiguousarray(row, dtype=self.rows[name].dtype).tobytes())
        except OSError as error:
            raise UserError(f"Cannot write {self.partial}: {error.strerror}.") from None
        self.count += 1

    def write_headers(self) -> None:
        for name, row in self.rows.items():
            header = {"descr": row.dtype.str, "fortran_order": False, "shape": (self.count, *row.shape)}
            self.files[name].seek(0)
            write_array_header_1_0(self.files[name], header)

    def finish(self, info: DatasetInfo) -> None:
        try:
            self.write_headers()
            self.open.close()
        except OSError as error:
            raise UserError(f"Cannot write {self.partial}: {error.strerror}.") from None
        meta = {"info": asdict(info), "count": self.count, "arrays": sorted(self.rows)}
        write_json(self.partial / "meta.json", meta)
        self.partial.rename(self.path)
