"""Write a safetensors file in one pass and in pieces, so that no array must be whole in memory.

    8 bytes: length of the header | header, JSON: key -> dtype, shape, place of its bytes | the bytes of all arrays

The file has the same bytes as a file that ``safetensors.numpy.save_file`` writes.
"""

import hashlib
import json
from pathlib import Path
from typing import Any, Iterable

import numpy as np

DTYPES = {"BOOL": "bool", "U8": "uint8", "I8": "int8", "I16": "int16", "U16": "uint16", "F16": "float16",
          "I32": "int32", "U32": "uint32", "F32": "float32", "C64": "complex64", "F64": "float64",
          "I64": "int64", "U64": "uint64"}
"""The format's name of a dtype -> NumPy's. Arrays with later dtypes here come earlier in a file."""
NAMES = {dtype: name for name, dtype in DTYPES.items()}


def name_of(dtype) -> str:
    """Return the format's name of a NumPy dtype. Raises ValueError if there is none. Local."""
    if (name := np.dtype(dtype).name) not in NAMES:
        raise ValueError(f"a checkpoint cannot hold arrays of dtype {name}")
    return NAMES[name]


def in_file_order(kinds: dict[str, tuple[Any, tuple]]) -> list[str]:
    """Return the keys in the order of their arrays in a file. kinds: key -> (dtype, shape). Local."""
    names = list(DTYPES)
    return sorted(kinds, key=lambda key: (-names.index(name_of(kinds[key][0])), key.encode()))


def header_of(kinds: dict[str, tuple[Any, tuple]]) -> bytes:
    """Return the bytes before those of the arrays. kinds: key -> (dtype, shape). Local."""
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
