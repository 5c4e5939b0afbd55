"""The IDX format of MNIST: magic number, sizes, then the values (LeCun, "The MNIST database", file formats)."""

import math
import struct
from pathlib import Path

import numpy as np

from models.data.errors import DataError
from models.data.files import read_bytes

UNSIGNED_BYTE = 0x08


def read_idx(path: Path, dimensions: int, remedy: str) -> np.ndarray:
    """Return the uint8 array of ``dimensions`` axes in an IDX file, gzip or not. Local. Raises DataError.

    The file is 0, 0, type, number of axes (a byte each), the axes' lengths (big-endian uint32), the values in C order.
    """
    content = read_bytes(path, remedy)
    header = 4 + 4 * dimensions
    if len(content) < header:
        raise DataError(f"{path}: {len(content)} bytes, too short for an IDX header of {header}; {remedy}")
    if content[:2] != b"\0\0":
        raise DataError(f"{path}: not an IDX file, it begins with {content[:4].hex()}; {remedy}")
    if content[2] != UNSIGNED_BYTE:
        raise DataError(f"{path}: IDX type 0x{content[2]:02x} instead of 0x08, unsigned bytes; {remedy}")
    if content[3] != dimensions:
        raise DataError(f"{path}: {content[3]} axes instead of {dimensions}; {remedy}")
    shape = struct.unpack(f">{dimensions}I", content[4:header])
    if len(content) != header + math.prod(shape):
        expected = header + math.prod(shape)
        raise DataError(f"{path}: {len(content)} bytes instead of {expected} for an array of {shape}; {remedy}")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)
