"""The authors' .h5 files: GROUP/imgs, GROUP/masks and sometimes GROUP/factors, read scene by scene.

HDF5 trusts a file: it follows links into other files, and allocates whatever size is declared or unpacked. So links,
sizes and compression are checked before anything is read.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from pathlib import Path
from typing import Any

from emorl.data.base import Array
from emorl.errors import Unreadable, UserError, missing
from emorl.files import cause, open_regular

# Bytes of one array of a scene; the largest published ones, masks of CLEVR, have 2.5 million.
LARGEST_SCENE = 2**26
LARGEST_CHUNK = 2**28  # bytes that HDF5 unpacks at a time
MOST_CHUNKS = 2**16  # of a scene
DEFLATE, SHUFFLE, FLETCHER, LZF = 1, 2, 3, 32000  # filters, by their numbers in HDF5; others may be plug-ins
SAFE = 2**18  # bytes which, whatever they are, unpack to less than 300 MB: deflate makes at most 1032 of one

LARGEST_LZF = 2**22  # bytes; lzf makes at most 88 of one


class H5Group:
    """`imgs`, `masks` and, if there are any, `factors` of one group. Close it after use."""

    def __init__(self, path: Path, group: str | None) -> None:
        open_regular(path).close()  # HDF5 would wait for ever for a pipe
        try:
            import h5py  # here, because importing it takes a while
        except ImportError:
            raise missing("h5py", "files", f"To read {path}") from None
        self.path = path
        with clear_errors(path):
            self.file = h5py.File(path, "r")
        try:
            with clear_errors(path):
                self.name, content = choose(self.file, group, path)
                self.sets = {
                    name: checked(content, name, f"{path}, {self.name}/{name}")
                    for name in ("imgs", "masks", "factors")
                    if name in content
                }
            self.check_lengths()
        except BaseException:
            self.close()
            raise
        self.unpacked = dict.fromkeys(self.sets, -1)  # the last row of chunks that was checked

    def check_lengths(self) -> None:
        """Raises UserError unless there are as many images as masks and factors."""
        absent = {"imgs", "masks"} - set(self.sets)
        if absent:
            raise UserError(f"{self.path} has no {self.name}/{' and no '.join(sorted(absent))}.")
        lengths = {name: len(content) for name, content in self.sets.items()}
        if len(set(lengths.values())) > 1:
            found = ", ".join(f"{length} {name}" for name, length in lengths.items())
            raise UserError(f"{self.path} is damaged: {self.name} has {found}; each scene has one of each.")

    def __len__(self) -> int:
        return len(self.sets["imgs"])

    def row(self, name: str, number: int) -> Array:
        """Returns one scene's values. Raises ValueError for what cannot be read."""
        content = self.sets[name]
        try:
            if content.chunks is not None and number // content.chunks[0] != self.unpacked[name]:
                self.unpacked[name] = number // content.chunks[0]
                check_chunks(content, self.unpacked[name] * content.chunks[0])
            values: Array = content[number]
            return values
        except ValueError:
            raise
        except Exception as error:  # h5py raises all kinds of things for a damaged file
            raise ValueError(f"its {name} cannot be read ({cause(error)})") from None

    def close(self) -> None:
        """Closes the file."""
        with clear_errors(self.path):
            self.file.close()


@contextmanager
def clear_errors(path: Path) -> Iterator[None]:
    """Turns whatever h5py raises inside the block into Unreadable; UserErrors pass through."""
    try:
        yield
    except UserError:
        raise
    except Exception as error:  # h5py raises all kinds of things for a damaged file
        raise Unreadable(path, cause(error)) from None


def choose(file: Any, group: str | None, path: Path) -> tuple[str, Any]:
    """Returns name and content of that group, or of the only one there is."""
    import h5py

    groups = [name for name in file if is_own(file, name) and isinstance(file[name], h5py.Group)]
    if group is None and len(groups) == 1:
        group = groups[0]
    if group is None or group not in groups:
        choice = f"has no group {group!r}" if group else "has several groups; choose one with --group"
        raise UserError(f"{path} {choice}: {', '.join(groups) or 'none'}.")
    return group, file[group]


def is_own(parent: Any, name: str) -> bool:
    """Returns whether `name` is stored in this file itself, not a link that may lead into another."""
    import h5py

    return isinstance(parent.get(name, getlink=True), h5py.HardLink)


def checked(parent: Any, name: str, place: str) -> Any:
    """Returns a dataset whose scenes can be read one at a time, in bounded memory."""
    import h5py

    if not is_own(parent, name) or not isinstance(parent[name], h5py.Dataset):
        raise UserError(f"{place}: it is no array of this file.")
    content = parent[name]
    if content.is_virtual or content.external:
        raise UserError(f"{place}: its values are in other files, which are not opened.")
    if content.dtype.kind not in "biuf" or content.dtype.itemsize > 8 or not content.shape:
        raise UserError(
            f"{place}: it is {content.dtype} {content.shape}, not one row of numbers for each scene."
        )
    if math.prod(content.shape[1:]) * content.dtype.itemsize > LARGEST_SCENE:
        raise UserError(f"{place}: a scene is {content.shape[1:]}, more than {LARGEST_SCENE} bytes.")
    if content.chunks is not None:
        check_filters(content, place)
    return content


def check_filters(content: Any, place: str) -> None:
    """Raises UserError unless a chunked dataset is packed by gzip, lzf or nothing, in chunks of bounded size."""
    settings = content.id.get_create_plist()
    filters = [settings.get_filter(index)[0] for index in range(settings.get_nfilters())]
    packers = [number for number in filters if number not in (SHUFFLE, FLETCHER)]
    if packers not in ([], [DEFLATE], [LZF]):
        raise UserError(f"{place}: it is compressed by filters {filters}; gzip or lzf are read.")
    if math.prod(content.chunks) * content.dtype.itemsize > LARGEST_CHUNK:
        raise UserError(f"{place}: it is in pieces of more than {LARGEST_CHUNK} bytes.")
    if math.prod(map(len, pieces(content))) > MOST_CHUNKS:
        raise UserError(f"{place}: a scene is in more than {MOST_CHUNKS} pieces.")


def pieces(content: Any) -> list[range]:
    """Returns where the chunks of a scene begin, along each of its sides."""
    sides = zip(content.shape[1:], content.chunks[1:], strict=True)
    return [range(0, side, step) for side, step in sides]


def check_chunks(content: Any, first: int) -> None:
    """Raises ValueError if the chunks of the scenes from `first` on would unpack to more than they should."""
    size = math.prod(content.chunks) * content.dtype.itemsize
    for at in product([first], *pieces(content)):
        if content.id.get_chunk_info_by_coord(at).size <= SAFE:
            continue
        _, raw = content.id.read_direct_chunk(at)
        if content.compression == "gzip" and len(zlib.decompressobj().decompress(raw, size + 1)) > size:
            raise ValueError("it unpacks to more than it should")
        if content.compression == "lzf" and len(raw) > LARGEST_LZF:
            raise ValueError(f"it is in packed pieces of more than {LARGEST_LZF} bytes")
