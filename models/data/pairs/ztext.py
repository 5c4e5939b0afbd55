"""Text modules of the SWORD project, driver zText: slots of text in compressed blocks.

    TESTAMENT.bzs  of each block: offset, size, unpacked size, as little-endian uint32
    TESTAMENT.bzv  of each slot: block uint32, offset in it uint32, size uint16
    TESTAMENT.bzz  the blocks, each compressed by zlib
"""

import struct
import zlib
from pathlib import Path

from models.data.files import DataError, read_bytes


def read_slots(directory: Path, testament: str, remedy: str) -> list[str]:
    """Return the slots of a testament, "ot" or "nt", empty ones too. Local. Raises DataError."""
    blocks, slots, packed = (read_bytes(directory / f"{testament}.{kind}", remedy) for kind in ("bzs", "bzv", "bzz"))
    try:
        unpacked = [zlib.decompress(packed[start:start + size]) if size else b""
                    for start, size, _ in struct.iter_unpack("<III", blocks)]
        return [unpacked[block][start:start + size].decode() if size else ""
                for block, start, size in struct.iter_unpack("<IIH", slots)]
    except (struct.error, zlib.error, IndexError, UnicodeDecodeError) as error:
        raise DataError(f"{directory}: {testament} is damaged ({error}); {remedy}") from None
