"""``fashion-mnist[:DIR]``: 70,000 pictures of clothes, 28 × 28 (Xiao, Rasul, Vollgraf 2017)."""

import math
import struct
from pathlib import Path

import numpy as np

from models.data.contents import Images
from models.data.files import DataError, read_bytes, require_directory, require_labels

DIRECTORY = "/usr/share/datasets/fashion-mnist"  # the folder of Debian's package
REMEDY = "install Debian's package dataset-fashion-mnist, or give a directory with the IDX files: fashion-mnist:DIR"
CLASSES = 10
UNSIGNED_BYTE = 0x08


def load_fashion_mnist(path: str = "") -> Images:
    """Return Fashion-MNIST; its test set is held out. MNIST has files of the same names. Local. Raises DataError."""
    directory = require_directory(path or DIRECTORY, REMEDY)
    name = f"fashion-mnist:{path}" if path else "fashion-mnist"
    return Images(name, *read_part(directory, "train"), *read_part(directory, "t10k"), CLASSES, flip=True)


def read_part(directory: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (images (n, h, w, 1) uint8, labels (n,) int64) of "train" or "t10k". Local. Raises DataError."""
    image_file, label_file = find(directory, f"{part}-images-idx3-ubyte"), find(directory, f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(image_file, 3, REMEDY), read_idx(label_file, 1, REMEDY)
    if not len(images) or len(images) != len(labels):
        raise DataError(f"{image_file}: {len(images)} images, but {label_file}: {len(labels)} labels; {REMEDY}")
    require_labels(label_file, labels, CLASSES, REMEDY)
    return images[..., None], labels.astype(np.int64)


def find(directory: Path, name: str) -> Path:
    """Return the path of the unpacked IDX file if it exists, else of the .gz file. Local."""
    plain = directory / name
    return plain if plain.exists() else directory / f"{name}.gz"


def read_idx(path: Path, dimensions: int, remedy: str) -> np.ndarray:
    """Return the uint8 array of ``dimensions`` axes in an IDX file, gzip or not. Local. Raises DataError.

    The file is 0, 0, type, number of axes (a byte each), the axes' lengths (big-endian uint32), the values in C order
    (LeCun, "The MNIST database", file formats).
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
