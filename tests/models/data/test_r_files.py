"""R's data frames: what R writes is read, and what is no data frame is refused with its file and the remedy."""

import bz2
import gzip
import lzma
import struct

import pytest

from models.data import DataError
from models.data.r_files import MAGIC, read_data_frame


def number(value):
    return struct.pack(">i", value)


def text(value):
    return number(9 | 64 << 12) + number(len(value)) + value.encode()


def strings(values):
    return number(16) + number(len(values)) + b"".join(map(text, values))


def tag(name):
    """Return a cell of a pair list, with its name."""
    return number(2 | 1 << 10) + number(1) + text(name)


def frame(name="shapes", kind=14):
    """Return the bytes of a file with one frame: x, of doubles; sides, of integers; class, a factor."""
    end, attributes = number(254), 1 << 9
    x = number(kind) + number(3) + struct.pack(">3d", 0.5, -1.25, 3e8)
    sides = number(13) + number(3) + struct.pack(">3i", 3, 4, 3)
    # a factor: places from 1 on, levels and class; the symbol "class" is then written a second time by its number
    factor = number(13 | attributes | 1 << 8) + number(3) + struct.pack(">3i", 2, 1, 2)
    factor += tag("levels") + strings(["square", "triangle"]) + tag("class") + strings(["factor"]) + end
    again = number(2 | 1 << 10) + number(3 << 8 | 255)  # the third symbol of the file
    about = tag("names") + strings(["x", "sides", "kind"]) + again + strings(["data.frame"]) + end
    body = number(19 | attributes | 1 << 8) + number(3) + x + sides + factor + about
    return MAGIC + number(2) + number(0x40202) + number(0x20300) + tag(name) + body + end


@pytest.mark.parametrize("compress", [bytes, gzip.compress, bz2.compress, lzma.compress])
def test_a_frame_is_read(tmp_path, compress):
    (tmp_path / "shapes.rda").write_bytes(compress(frame()))
    columns = read_data_frame(tmp_path / "shapes.rda", "shapes", "")
    assert {name: values.tolist() for name, values in columns.items()} == {
        "x": [0.5, -1.25, 3e8], "sides": [3, 4, 3], "kind": [1, 0, 1]}


@pytest.mark.parametrize("content, says", [
    (None, "no such file"), (b"RDX3\nX\n", "not a file of R's format RDX2"), (frame()[:-90], "no data frame 'shapes'"),
    (frame("colours"), "no data frame 'shapes'"), (lzma.compress(frame())[:-20], "no data frame 'shapes'"),
    (frame(kind=24), "items of type 24 are not known"),
], ids=["missing", "version", "short", "name", "unpacked", "type"])
def test_what_is_no_frame_is_named(tmp_path, content, says):
    path = tmp_path / "shapes.rda"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(DataError, match=f"{path}: .*{says}.*; fetch it"):
        read_data_frame(path, "shapes", "fetch it")
