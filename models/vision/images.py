"""From a batch of bytes to a network's input: selection of counted images, augmentation in training, normalisation."""

import numpy as np

from kernels.arrays import array_module
from kernels.random import key_of, uniform
from models.sizes import require_all_positive


def require_image_shape(image_shape):
    """Raise ValueError unless it is (height, width, channels), positive integers. Local."""
    require_all_positive(image_shape=image_shape)
    if len(image_shape) != 3:
        raise ValueError(f"image_shape={image_shape}: give it three axes (height, width, channels)")


def counted_images(model, batch, xp, augment):
    """Return the (images, targets) of a batch whose weight is not 0, as arrays of ``xp``. Local.

    model: has ``image_shape``, ``classes`` and ``flip``.  Raises ValueError if the batch does not fit it.
    """
    images, targets = batch.inputs, batch.targets
    if tuple(images.shape[1:]) != model.image_shape or images.dtype != "uint8" or len(images) != len(targets):
        raise ValueError(f"batch of images {images.shape} {images.dtype} and targets {targets.shape}: this network "
                         f"takes (n, {', '.join(map(str, model.image_shape))}) uint8 and (n,)")
    if len(targets) and not 0 <= int(targets.min()) <= int(targets.max()) < model.classes:
        raise ValueError(f"targets from {int(targets.min())} to {int(targets.max())}: this network has "
                         f"{model.classes} classes, numbered from 0")
    images, targets = xp.asarray(images), xp.asarray(targets)
    if augment and len(images):
        images = augment_images(images, key_of(batch.key, "augment"), model.flip)
    if batch.weights is not None:
        counted = xp.asarray(np.flatnonzero(batch.weights > 0))
        images, targets = images[counted], targets[counted]
    return images, targets


def normalize_images(images, dtype):
    """Return bytes 0..255 as numbers -1..1: images / 127.5 - 1, for every data set."""
    return images.astype(dtype) / 127.5 - 1


def crop_padding(shape):
    """Return the number of zero pixels around an image before it is cropped: an eighth of its side, 4 for 32."""
    return max(1, min(shape[:2]) // 8)


def augment_images(images, key, flip):
    """Return random crops of the zero-padded images; with ``flip``, half of them are mirrored (He et al. 2016, 4.2).

    images, result: (n, h, w, c) uint8. Image i uses elements 3i (row), 3i + 1 (column) and 3i + 2 (mirrored if below
    1/2) of the uniform sequence ``key``, so its draws do not depend on n.
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
