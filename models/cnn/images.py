"""From bytes to the network's input: augmentation (training only) and normalisation."""

from kernels.arrays import array_module
from kernels.random import uniform


def normalize_images(images, dtype):
    """Return bytes 0..255 as numbers -1..1: images / 127.5 - 1, the same constants for every data set."""
    return images.astype(dtype) / 127.5 - 1


def crop_padding(shape):
    """Return the number of zero pixels around an image before it is cropped: an eighth of its side, 4 for 32."""
    return max(1, min(shape[:2]) // 8)


def augment_images(images, key, flip):
    """Return each image cropped at random from its zero-padded self and, with ``flip``, mirrored half the time.

    images: (n, h, w, c) uint8; so is the result. Image i takes elements 3i (row), 3i + 1 (column) and 3i + 2
    (mirrored if below 1/2) of the uniform sequence ``key``: its draws do not depend on n (He et al. 2016, section 4.2).
    """
    xp = array_module(images)
    n, height, width, _ = images.shape
    padding = crop_padding((height, width))
    draws = uniform(key, 3 * n, xp=xp).reshape(n, 3)
    corner = (draws[:, :2] * (2 * padding + 1)).astype(xp.int64)
    rows = corner[:, :1] + xp.arange(height)
    columns = corner[:, 1:] + xp.arange(width)
    if flip:
        columns = xp.where(draws[:, 2:] < 0.5, columns[:, ::-1], columns)
    padded = xp.pad(images, ((0, 0), (padding, padding), (padding, padding), (0, 0)))
    return padded[xp.arange(n)[:, None, None], rows[:, :, None], columns[:, None, :]]
