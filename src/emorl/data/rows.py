"""Arrays on disk (.npy), read and written row by row, with plain system calls instead of memory maps.

If a memory-mapped file is truncated while it is read, or the disk is full, the process is killed without a message. A
system call returns an error instead.
"""

from __future__ import annotations

import errno
import io
import os
import weakref
from pathlib import Path
from typing import BinaryIO

import numpy as np
from numpy.lib import format as npy

from emorl.data.base import Array
from emorl.errors import UserError
from emorl.files import cause, open_regular

LARGEST_ROW = 2**26  # bytes; an image of 4096 x 4096 pixels has fewer
WAY_OUT = "delete the folder and store its scenes again"


class Rows:
    """The rows of an array in a file: `rows[i]` is a copy of one. Raises UserError if damaged, when opened or read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file = open_regular(path)
        weakref.finalize(self, self.file.close)
        self.dtype, shape, self.start = read_header(self.file, path)
        self.count, self.shape = shape[0], shape[1:]
        self.row_bytes = int(np.prod(self.shape, dtype=object)) * self.dtype.itemsize
        expected, found = self.start + self.count * self.row_bytes, os.fstat(self.file.fileno()).st_size
        if found != expected:
            raise damaged(path, f"it has {found} bytes and should have {expected}")
        if not 0 < self.row_bytes <= LARGEST_ROW:
            raise damaged(path, f"its rows have {self.row_bytes} bytes, not 1 to {LARGEST_ROW}")

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> Array:
        row = np.empty(self.shape, dtype=self.dtype)
        try:
            found = os.preadv(self.file.fileno(), [row.data], self.start + index * self.row_bytes)
        except OSError as error:
            raise damaged(self.path, f"row {index} cannot be read ({cause(error)})") from None
        if found != self.row_bytes:
            raise damaged(self.path, f"it ends before row {index}")
        return row

    def __reduce__(self) -> tuple[type[Rows], tuple[Path]]:
        return Rows, (self.path,)


def read_header(file: BinaryIO, path: Path) -> tuple[np.dtype[np.generic], tuple[int, ...], int]:
    """Returns dtype, shape and where the values begin. Arrays of objects, which hold pickles, are refused."""
    try:
        version = npy.read_magic(file)
        if version != (1, 0):  # others have headers of any length
            raise damaged(path, f"it is in version {version[0]}.{version[1]} of the format, not 1.0")
        shape, is_fortran, dtype = npy.read_array_header_1_0(file)
    except UserError:
        raise
    except Exception as error:  # numpy evaluates the header, and raises all kinds of things for a damaged one
        raise damaged(path, f"its header cannot be read ({cause(error)})") from None
    if dtype.hasobject or dtype.names is not None or not dtype.isnative:
        raise damaged(path, f"it holds {dtype} instead of numbers")
    if is_fortran or not shape or any(type(side) is not int or side < 1 for side in shape):
        raise damaged(path, f"its shape {shape} is not one of rows")
    return dtype, shape, file.tell()


def damaged(path: Path, problem: str) -> UserError:
    """Returns the error for a damaged file, to be raised by the caller."""
    return UserError(f"{path} is damaged: {problem}; {WAY_OUT}.")


def header_of(row: Array, count: int) -> bytes:
    """Returns the header of an .npy file of `count` rows like `row`; its length is the same for every count."""
    content = io.BytesIO()
    shape = (count, *row.shape)
    npy.write_array_header_1_0(content, {"descr": row.dtype.str, "fortran_order": False, "shape": shape})
    return content.getvalue()


def reserve(path: Path, row: Array, count: int) -> None:
    """Makes a file for `count` rows. Raises OSError if the disk has no room for them."""
    header = header_of(row, count)
    with open(path, "wb") as file:
        file.write(header)
        file.flush()
        size = len(header) + count * row.nbytes
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, size)
            except OSError as error:  # some file systems cannot reserve; there, writing rows may fail later
                if error.errno not in (errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS):
                    raise
        file.truncate(size)


def write_rows(path: Path, values: Array, first: int) -> None:
    """Writes rows `first`, `first` + 1, ... of a file that `reserve` has made."""
    rows = Rows(path)
    with open(path, "r+b") as file:
        file.seek(rows.start + first * rows.row_bytes)
        file.write(np.ascontiguousarray(values, dtype=rows.dtype).data)
        file.flush()
        os.fsync(file.fileno())
