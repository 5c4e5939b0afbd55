"""Data frames of R's packages, without R: files of the format RDX2, as R's ``save`` writes them (R Internals, 1.8)."""

import bz2
import lzma
import struct
from pathlib import Path

import numpy as np

from models.data.files import DataError, read_bytes

MAGIC = b"RDX2\nX\n"
HEADER = len(MAGIC) + 12
"""The magic, and three numbers: the format's version, and two versions of R."""
SYMBOL, PAIRS, CHARS, LOGICALS, INTEGERS, REALS, STRINGS, LIST, REFERENCE, END = 1, 2, 9, 10, 13, 14, 16, 19, 255, 254
HAS_ATTRIBUTES, HAS_TAG = 1 << 9, 1 << 10


def read_data_frame(path: Path, name: str, remedy: str) -> dict:
    """Return column -> values of the data frame ``name`` in a file: (n,) arrays; of a factor, its indices (from 0).

    Local. Raises DataError, which ends with ``remedy``, if the file is missing, damaged or of another format.
    """
    content = read_bytes(path, remedy)
    try:
        for magic, unpack in ((b"\xfd7zXZ", lzma.decompress), (b"BZh", bz2.decompress)):
            content = unpack(content) if content.startswith(magic) else content
        if not content.startswith(MAGIC):
            raise DataError(f"{path}: not a file of R's format RDX2, it begins with {content[:7]!r}; {remedy}")
        frames, _ = Reader(content[HEADER:]).item()
        columns, attributes = frames[name]
        return {column: values - 1 if "levels" in about else values
                for column, (values, about) in zip(attributes["names"][0], columns)}
    except (lzma.LZMAError, OSError, EOFError, struct.error, LookupError, ValueError, TypeError) as error:
        if isinstance(error, DataError):
            raise
        raise DataError(f"{path}: no data frame {name!r} can be read from it ({error}); {remedy}") from None


class Reader:
    """It reads items one after the other. Local. content: the bytes behind the header."""

    def __init__(self, content: bytes):
        self.content, self.at, self.symbols = content, 0, []

    def numbers(self, dtype: str, count: int):
        """Return the next ``count`` numbers, as an array in this machine's byte order."""
        found = np.frombuffer(self.content, dtype, count, self.at)
        self.at += found.nbytes
        return found.astype(found.dtype.newbyteorder("="))

    def integer(self) -> int:
        """Return the next number."""
        return int(self.numbers(">i4", 1)[0])

    def item(self):
        """Return the next item as (its value, its attributes: name -> item). A pair list is a dictionary of items.

        Raises ValueError for kinds of items that data frames do not need.
        """
        flags = self.integer()
        kind = flags & 0xFF
        if kind == END:
            return {}, {}
        if kind == REFERENCE:
            return self.symbols[(flags >> 8) - 1], {}
        if kind == SYMBOL:
            self.symbols.append(self.item()[0])
            return self.symbols[-1], {}
        if kind == PAIRS:
            return self._pairs(flags), {}
        value = self._vector(kind, self.integer())
        return value, self.item()[0] if flags & HAS_ATTRIBUTES and kind != CHARS else {}

    def _pairs(self, flags):
        found = {}
        while flags & 0xFF == PAIRS and flags & HAS_TAG:
            tag = self.item()[0]
            found[tag] = self.item()
            flags = self.integer()
        if flags & 0xFF != END:
            raise ValueError(f"items of type {flags & 0xFF} are not known in a list of pairs")
        return found

    def _vector(self, kind, length):
        if kind == CHARS:
            self.at += max(length, 0)
            return self.content[self.at - max(length, 0):self.at].decode("latin-1")
        if kind in (LOGICALS, INTEGERS):
            return self.numbers(">i4", length).astype(np.int64)
        if kind == REALS:
            return self.numbers(">f8", length)
        if kind == STRINGS:
            return [self.item()[0] for _ in range(length)]
        if kind == LIST:
            return [self.item() for _ in range(length)]
        raise ValueError(f"items of type {kind} are not known")
