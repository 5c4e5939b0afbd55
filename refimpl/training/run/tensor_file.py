"""A safetensors file, written in one pass and in pieces, so that no array must be whole in memory.

    8 bytes: length of the header | header, JSON: key -> dtype, shape, place of its bytes | the bytes of all arrays

It is byte for byte the file that ``safetensors.numpy.save_file`` writes.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Iterable

import numpy as np

DTYPES = ("BOOL", "U8", "I8", "I16", "U16", "F16", "I32", "U32", "F32", "C64", "F64", "I64", "U64")
"""The format's names of NumPy's dtypes. An array comes the earlier in a file, the later its dtype comes here."""
NAMES = {"b": "BOOL", "u": "U", "i": "I", "f": "F", "c": "C"}


def name_of(dtype) -> str:
    """Return the format's name of a NumPy dtype. Raises ValueError if it has none. Local."""
    dtype = np.dtype(dtype)
    name = NAMES.get(dtype.kind, "?") + (f"{8 * dtype.itemsize}" if dtype.kind != "b" else "")
    if name not in DTYPES:
        raise ValueError(f"a checkpoint cannot hold arrays of dtype {dtype}")
    return name


def in_file_order(kinds: dict[str, tuple[Any, tuple]]) -> list[str]:
    """Return the keys in the order of their bytes in a file. kinds: key -> (dtype, shape). Local."""
    return sorted(kinds, key=lambda key: (-DTYPES.index(name_of(kinds[key][0])), key.encode()))


def header_of(kinds: dict[str, tuple[Any, tuple]]) -> bytes:
    """Return what comes before the arrays' bytes. kinds: key -> (dtype, shape). Local."""
    entries, end = {}, 0
    for key in in_file_order(kinds):
        dtype, shape = kinds[key]
        first, end = end, end + int(np.prod(shape, dtype=np.int64)) * np.dtype(dtype).itemsize
        entries[key] = {"dtype": name_of(dtype), "shape": list(shape), "data_offsets": [first, end]}
    text = json.dumps(entries, separators=(",", ":"), ensure_ascii=False).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text


def write_pieces(path: Path, pieces: Iterable[bytes | memoryview]) -> tuple[str, int]:
    """Write the pieces one after the other; return the file's SHA-256, hex, and its size in bytes. Local."""
    digest, size = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
    return digest.hexdigest(), size
