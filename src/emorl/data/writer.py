"""StoreWriter: stores scenes whose number is not known beforehand."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import IO, Self

import numpy as np

from emorl.data.base import Arrays, DatasetInfo
from emorl.data.rows import header_of
from emorl.data.stored import PLAN, partial_of, put_in_place, read_plan
from emorl.errors import UserError
from emorl.files import cause, make_directory, write_json


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
        self.rows = arrays
        for name, row in arrays.items():
            file = open(self.partial / f"{name}.npy", "wb")  # noqa: SIM115, closed with the stack
            self.files[name] = self.open.enter_context(file)
            file.write(header_of(row, 0))

    def finish(self, info: DatasetInfo) -> None:
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
        write_json(self.partial / "meta.json", meta)
        put_in_place(self.partial, self.path)


def describe(arrays: Arrays) -> str:
    """Returns names, types and shapes of arrays as text: "image uint8 (64, 64, 3), ..."."""
    return ", ".join(f"{name} {row.dtype} {row.shape}" for name, row in sorted(arrays.items()))
