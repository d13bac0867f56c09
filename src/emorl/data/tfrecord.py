"""TFRecord files of tf.train.Example, read with gzip and numpy: no TensorFlow, no protobuf.

A file is a stream, mostly gzipped, of records: length (8 bytes), its checksum (4), payload, its checksum (4), all
little-endian. Anything else raises UserError with file, record and reason.
"""

from __future__ import annotations

import gzip
import os
import struct
import zlib
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO, cast

import numpy as np

from emorl.data.base import Array
from emorl.errors import Unreadable, UserError, missing
from emorl.files import cause, open_regular

LARGEST = 64 * 2**20  # bytes of any record; the largest published ones, of CLEVR, have 3.2 million
GZIP = b"\x1f\x8b"


def records(path: Path, *, largest: int = LARGEST) -> Iterator[tuple[bytes, float]]:
    """Yields each record's payload, checked, and how much of the file has been read, from 0 to 1.

    A record of more than `largest` bytes is refused before it is decompressed: a few bytes may stand for gigabytes.
    """
    if find_spec("google_crc32c") is None:
        raise missing("google-crc32c", "files", f"To read {path}")
    try:
        with open_regular(path) as file:
            size = os.fstat(file.fileno()).st_size
            is_compressed = file.read(2) == GZIP
            file.seek(0)
            stream = cast(BinaryIO, gzip.GzipFile(fileobj=file)) if is_compressed else file
            number = 0
            while True:
                try:
                    payload = next_record(stream, largest)
                except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
                    raise UserError(f"{path}, record {number}: {error}.") from None
                if payload is None:
                    break
                yield payload, file.tell() / size
                number += 1
    except OSError as error:
        raise Unreadable(path, cause(error)) from None
    if number == 0:
        raise UserError(f"{path} holds no records.")


def next_record(stream: BinaryIO, largest: int) -> bytes | None:
    """Returns the next payload, or None at the end. Raises ValueError for what is not a record."""
    header = stream.read(12)
    if not header:
        return None
    if len(header) < 12:
        raise ValueError("the file ends within a header")
    length, checksum = struct.unpack("<QI", header)
    if checksum != masked_crc(header[:8]):
        raise ValueError("the checksum of its length is wrong; this is not a TFRecord file, or it is damaged")
    if length > largest:
        raise ValueError(f"its length of {length} bytes is beyond the {largest} that it may need")
    payload, tail = stream.read(length), stream.read(4)
    if len(payload) < length or len(tail) < 4:
        raise ValueError("the file ends within it")
    if struct.unpack("<I", tail)[0] != masked_crc(payload):
        raise ValueError("its checksum is wrong: the file is damaged")
    return payload


def masked_crc(content: bytes) -> int:
    """Returns the CRC-32C of `content`, rotated and shifted as in TFRecord files."""
    import google_crc32c  # here, because only who reads such files has it

    crc = int(google_crc32c.value(content))
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def parse_example(payload: bytes) -> dict[str, Array]:
    """Returns the features of a tf.train.Example. Raises ValueError if it is none."""
    features: dict[str, Array] = {}
    for number, message in fields(memoryview(payload)):
        expect(number, 1, "an Example")
        for entry_number, entry in fields(message):
            expect(entry_number, 1, "its features")
            pair = dict(fields(entry))
            if set(pair) != {1, 2}:
                raise ValueError("a feature lacks its name or its value")
            name = bytes(pair[1]).decode("utf-8", errors="replace")
            features[name] = parse_feature(pair[2], name)
    return features


def parse_feature(message: memoryview, name: str) -> Array:
    """Returns the values of a tf.train.Feature, bytes as uint8 or floats; raises ValueError for other kinds."""
    for kind, values in fields(message):
        match kind:
            case 1:
                return bytes_list(values)
            case 2:
                return float_list(values)
            case 3:
                raise ValueError(f"feature {name!r} holds 64-bit integers, which no published set has")
    raise ValueError(f"feature {name!r} is empty")


def bytes_list(message: memoryview) -> Array:
    """Returns the bytes of a list. Published sets store one element per byte, `0A 01 xx`: every third is a value."""
    raw = np.frombuffer(message, dtype=np.uint8)
    if len(raw) % 3 == 0 and (raw[0::3] == 0x0A).all() and (raw[1::3] == 1).all():
        return raw[2::3]
    return np.frombuffer(joined(message), dtype=np.uint8)


def float_list(message: memoryview) -> Array:
    """Returns the values of a list of floats, stored packed or one by one."""
    packed = joined(message)
    if len(packed) % 4:
        raise ValueError("a list of floats has a broken end")
    return np.frombuffer(packed, dtype="<f4")


def joined(message: memoryview) -> bytearray:
    """Returns the elements of a list, end to end; a Python list of them takes a hundred times the memory."""
    content = bytearray()
    for number, element in fields(message):
        if number == 1:
            content += element
    return content


def fields(message: memoryview) -> Iterator[tuple[int, memoryview]]:
    """Yields (number, content) of the fields of a protobuf message; all have a length or four bytes."""
    at = 0
    while at < len(message):
        tag, at = varint(message, at)
        match tag & 7:
            case 2:
                length, at = varint(message, at)
            case 5:
                length = 4
            case kind:
                raise ValueError(f"its content has a field of kind {kind}, which an Example cannot have")
        if at + length > len(message):
            raise ValueError("its content ends within a field")
        yield tag >> 3, message[at : at + length]
        at += length


def varint(message: memoryview, at: int) -> tuple[int, int]:
    """Returns the number that starts at `at`, and the position after it."""
    value = 0
    for shift in range(0, 64, 7):
        if at >= len(message):
            raise ValueError("its content ends within a number")
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError("its content has a number of more than 64 bits")


def expect(number: int, wanted: int, what: str) -> None:
    """Raises ValueError, naming `what` was expected, unless a field has the number `wanted`."""
    if number != wanted:
        raise ValueError(f"its content is not {what}")
