"""``fashion-mnist[:DIR]``: 70,000 pictures of clothes, 28 × 28 (Xiao, Rasul, Vollgraf 2017)."""

from pathlib import Path

import numpy as np

from models.data.contents import Images
from models.data.errors import DataError
from models.data.files import require_directory
from models.data.images.idx import read_idx

DIRECTORY = "/usr/share/datasets/fashion-mnist"  # where Debian's package puts them
REMEDY = "install Debian's package dataset-fashion-mnist, or give a directory with the IDX files: fashion-mnist:DIR"
CLASSES = 10


def load_fashion_mnist(path: str = "") -> Images:
    """Return Fashion-MNIST; its test set is held out. MNIST itself has the same files. Local. Raises DataError."""
    directory = require_directory(path or DIRECTORY, REMEDY)
    name = f"fashion-mnist:{path}" if path else "fashion-mnist"
    return Images(name, *read_part(directory, "train"), *read_part(directory, "t10k"), CLASSES, flip=True)


def read_part(directory: Path, part: str) -> tuple[np.ndarray, np.ndarray]:
    """Return (images (n, h, w, 1) uint8, labels (n,) int64) of "train" or "t10k". Local. Raises DataError."""
    image_file, label_file = find(directory, f"{part}-images-idx3-ubyte"), find(directory, f"{part}-labels-idx1-ubyte")
    images, labels = read_idx(image_file, 3, REMEDY), read_idx(label_file, 1, REMEDY)
    if not len(images) or len(images) != len(labels):
        raise DataError(f"{image_file}: {len(images)} images, but {label_file}: {len(labels)} labels; {REMEDY}")
    if labels.max() >= CLASSES:
        where = int(np.argmax(labels >= CLASSES))
        raise DataError(f"{label_file}: label {where} is {labels[where]}, the largest is {CLASSES - 1}; {REMEDY}")
    return images[..., None], labels.astype(np.int64)


def find(directory: Path, name: str) -> Path:
    """Return the path of an IDX file, unpacked if there is such a one, else with .gz. Local."""
    plain = directory / name
    return plain if plain.exists() else directory / f"{name}.gz"
