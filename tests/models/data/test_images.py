"""Image sources: formats read byte by byte, and every way in which a file can be wrong."""

import gzip
import math
import struct
import sys
from pathlib import Path

import numpy as np
import pytest

from models.data import DataError, Images, load
from models.data.images.fashion_mnist import DIRECTORY


def idx(array, magic=b"\0\0\x08", dimensions=None):
    """Return an IDX file's bytes."""
    sizes = array.shape
    return magic + bytes([dimensions or len(sizes)]) + struct.pack(f">{len(sizes)}I", *sizes) + array.tobytes()


def damage(path, content):
    """Put another content in a file's place, or take the file away."""
    path.unlink()
    if content is not None:
        path.write_bytes(content)


def fashion(directory, compress=lambda content: content, suffix=""):
    """Write a small Fashion-MNIST of 6 + 4 images of 3 × 2; return its arrays."""
    arrays = {}
    for part, count in (("train", 6), ("t10k", 4)):
        images = np.arange(count * 6, dtype=np.uint8).reshape(count, 3, 2)
        labels = (np.arange(count, dtype=np.uint8) * 3) % 10
        (directory / f"{part}-images-idx3-ubyte{suffix}").write_bytes(compress(idx(images)))
        (directory / f"{part}-labels-idx1-ubyte{suffix}").write_bytes(compress(idx(labels)))
        arrays[part] = images, labels
    return arrays


@pytest.mark.parametrize("compress, suffix", [(bytes, ""), (gzip.compress, ".gz")])
def test_fashion_mnist(tmp_path, compress, suffix):
    arrays = fashion(tmp_path, compress, suffix)
    images = load(f"fashion-mnist:{tmp_path}")
    np.testing.assert_array_equal(images.train_images[..., 0], arrays["train"][0])
    np.testing.assert_array_equal(images.train_labels, arrays["train"][1])
    np.testing.assert_array_equal(images.heldout_images[..., 0], arrays["t10k"][0])
    np.testing.assert_array_equal(images.heldout_labels, arrays["t10k"][1])
    assert images.train_images.shape == (6, 3, 2, 1) and images.train_images.dtype == np.uint8
    assert images.train_labels.dtype == np.int64 and images.classes == 10
    assert not images.train_images.flags.writeable


IMAGES, LABELS = "train-images-idx3-ubyte", "train-labels-idx1-ubyte"
SIX = np.arange(6, dtype=np.uint8)


@pytest.mark.parametrize(
    "file, content, complaint",
    [
        (IMAGES, None, "no such file"),
        (IMAGES, b"", "0 bytes, too short"),
        (IMAGES, b"\0\0\x08\x03\0\0", "too short for an IDX header"),
        (IMAGES, b"PK\x03\x04" + bytes(99), "not an IDX file, it begins with 504b0304"),
        (IMAGES, idx(SIX.reshape(1, 3, 2), b"\0\0\x0d"), "type 0x0d"),
        (IMAGES, idx(SIX) + bytes(99), "1 axes instead of 3"),
        (LABELS, idx(SIX.reshape(1, 3, 2)), "3 axes instead of 1"),
        (IMAGES, idx(SIX.reshape(1, 3, 2))[:-1], "21 bytes instead of 22"),
        (IMAGES, idx(SIX.reshape(1, 3, 2)) + b"\0", "23 bytes instead of 22"),
        (IMAGES, gzip.compress(idx(SIX.reshape(1, 3, 2)), mtime=0)[:-10], "damaged gzip"),
        (IMAGES, gzip.compress(bytes(1000), mtime=0)[:-8] + bytes(8), "damaged gzip"),
        (IMAGES, gzip.compress(b"", mtime=0)[:10] + b"\xff" * 20, "damaged gzip"),
        (IMAGES, idx(np.zeros((5, 3, 2), np.uint8)), "5 images, but .* 6 labels"),
        (IMAGES, idx(np.zeros((6, 2, 2), np.uint8)), "differ in size"),
        (LABELS, idx(SIX + np.uint8(5)), "label 5 is 10, the largest is 9"),
    ],
)
def test_damaged_fashion_mnist(tmp_path, file, content, complaint):
    fashion(tmp_path)
    damage(tmp_path / file, content)
    with pytest.raises(DataError, match=complaint) as error:
        load(f"fashion-mnist:{tmp_path}")
    if "differ" not in complaint:
        assert file in str(error.value) and "dataset-fashion-mnist" in str(error.value)


def test_empty_fashion_mnist(tmp_path):
    fashion(tmp_path)
    (tmp_path / IMAGES).write_bytes(idx(np.zeros((0, 3, 2), np.uint8)))
    (tmp_path / LABELS).write_bytes(idx(np.zeros(0, np.uint8)))
    with pytest.raises(DataError, match="0 images"):
        load(f"fashion-mnist:{tmp_path}")


def test_fashion_mnist_says_how_to_get_it(monkeypatch, tmp_path):
    monkeypatch.setattr("models.data.images.fashion_mnist.DIRECTORY", str(tmp_path / "none"))
    with pytest.raises(DataError, match="none: no such directory; install Debian's package dataset-fashion-mnist"):
        load("fashion-mnist")


@pytest.mark.skipif(not Path(DIRECTORY).is_dir(), reason="Debian's package dataset-fashion-mnist is not installed")
def test_debians_fashion_mnist():
    images = load("fashion-mnist")
    assert images.train_images.shape == (60_000, 28, 28, 1) and images.heldout_images.shape == (10_000, 28, 28, 1)
    assert np.bincount(images.train_labels).tolist() == [6_000] * 10
    assert np.bincount(images.heldout_labels).tolist() == [1_000] * 10
    assert images.train_labels[:5].tolist() == [9, 0, 0, 3, 0]


def cifar(directory):
    """Write a small CIFAR-10 of 5 × 2 + 3 images; return the planar training images and labels."""
    generator = np.random.default_rng(0)
    parts = []
    for name, count in [(f"data_batch_{i}.bin", 2) for i in range(1, 6)] + [("test_batch.bin", 3)]:
        records = generator.integers(0, 256, (count, 3073), dtype=np.uint8)
        records[:, 0] %= 10
        (directory / name).write_bytes(records.tobytes())
        parts.append(records)
    train = np.concatenate(parts[:-1])
    return train[:, 1:].reshape(-1, 3, 32, 32), train[:, 0]


def test_cifar10(tmp_path):
    planar, labels = cifar(tmp_path)
    images = load(f"cifar10:{tmp_path}")
    assert images.train_images.shape == (10, 32, 32, 3) and images.heldout_images.shape == (3, 32, 32, 3)
    for channel in range(3):
        np.testing.assert_array_equal(images.train_images[..., channel], planar[:, channel])
    np.testing.assert_array_equal(images.train_labels, labels)
    assert images.train_images.flags.c_contiguous and images.train_labels.dtype == np.int64


@pytest.mark.parametrize(
    "content, complaint",
    [
        (None, "no such file"),
        (b"", "0 bytes are not whole records of 3073"),
        (bytes(3072), "3072 bytes are not whole records"),
        (bytes(3073) + b"\x0a" + bytes(3072), "label 1 is 10"),
    ],
)
@pytest.mark.parametrize("file", ["data_batch_4.bin", "test_batch.bin"])
def test_damaged_cifar10(tmp_path, file, content, complaint):
    cifar(tmp_path)
    damage(tmp_path / file, content)
    with pytest.raises(DataError, match=complaint) as error:
        load(f"cifar10:{tmp_path}")
    assert file in str(error.value) and "cifar-10-binary.tar.gz" in str(error.value)


def test_digits():
    datasets = pytest.importorskip("sklearn.datasets", reason="scikit-learn is not installed")
    images = load("digits")
    assert images.train_images.shape == (1500, 8, 8, 1) and images.heldout_images.shape == (297, 8, 8, 1)
    pictures = np.concatenate([images.train_images, images.heldout_images])[..., 0]
    labels = np.concatenate([images.train_labels, images.heldout_labels])
    assert labels[:10].tolist() == [3, 4, 7, 6, 8, 8, 4, 6, 2, 8]
    levels = {math.floor(value * 255 / 16 + 0.5) for value in range(17)}  # exact: 255 / 16 is a dyadic fraction
    assert set(np.unique(pictures).tolist()) == levels and {0, 255} <= levels
    original = datasets.load_digits()
    scaled = np.floor(original.images * 255 / 16 + 0.5).astype(np.uint8)
    assert sorted((t, p.tobytes()) for t, p in zip(original.target.tolist(), scaled)) == sorted(
        (t, p.tobytes()) for t, p in zip(labels.tolist(), pictures)
    )
    assert np.bincount(images.heldout_labels).min() >= 20


def test_digits_say_how_to_get_them(monkeypatch):
    monkeypatch.setitem(sys.modules, "sklearn.datasets", None)
    with pytest.raises(DataError, match="pip install scikit-learn"):
        load("digits")


def test_image_fingerprint_covers_all_parts():
    def make(**changes):
        images, labels = np.zeros((3, 2, 2, 1), np.uint8), np.zeros(3, np.int64)
        parts = dict(train_images=images, train_labels=labels, heldout_images=images, heldout_labels=labels, classes=2)
        return Images("name", **{**parts, **changes}).fingerprint

    ones, other = np.ones((3, 2, 2, 1), np.uint8), np.ones(3, np.int64)
    names = dict(train_images=ones, train_labels=other, heldout_images=ones, heldout_labels=other, classes=3)
    fingerprints = {make(), *(make(**{name: value}) for name, value in names.items())}
    assert len(fingerprints) == 6
