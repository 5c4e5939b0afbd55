"""``cifar10:DIR``: 60,000 colour images of 32 × 32 in ten classes, binary version (Krizhevsky 2009)."""

from pathlib import Path

import numpy as np

from models.data.contents import Images
from models.data.files import DataError, read_bytes, require_directory, require_labels

REMEDY = ("unpack cifar-10-binary.tar.gz (https://www.cs.toronto.edu/~kriz/cifar.html) "
          "and give the directory with data_batch_1.bin: cifar10:DIR")
CLASSES = 10
HEIGHT, WIDTH, CHANNELS = 32, 32, 3
RECORD = 1 + HEIGHT * WIDTH * CHANNELS  # label, then the red, the green and the blue plane


def load_cifar10(path: str) -> Images:
    """Return CIFAR-10: data_batch_1 … 5 to train on, test_batch held out. Local. Raises DataError."""
    directory = require_directory(path, REMEDY)
    parts = [read_batch(directory / f"data_batch_{number}.bin") for number in range(1, 6)]
    images, labels = (np.concatenate(arrays) for arrays in zip(*parts))
    heldout = read_batch(directory / "test_batch.bin")
    return Images(f"cifar10:{path}", images, labels, *heldout, CLASSES, flip=True)


def read_batch(path: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return (images (n, 32, 32, 3) uint8, labels (n,) int64) of one file. Local. Raises DataError."""
    content = read_bytes(path, REMEDY)
    if not content or len(content) % RECORD:
        raise DataError(f"{path}: {len(content)} bytes are not whole records of {RECORD}; {REMEDY}")
    records = np.frombuffer(content, np.uint8).reshape(-1, RECORD)
    labels = records[:, 0].astype(np.int64)
    require_labels(path, labels, CLASSES, REMEDY)
    planar = records[:, 1:].reshape(-1, CHANNELS, HEIGHT, WIDTH)
    return np.ascontiguousarray(planar.transpose(0, 2, 3, 1)), labels
