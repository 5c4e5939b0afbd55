"""Augmentation and normalisation of images, against loops over images and pixels."""

import numpy as np

from kernels.random import uniform
from models.vision.images import augment_images, crop_padding, normalize_images


def images_of(n, shape=(9, 6, 2)):
    return np.random.default_rng(1).integers(1, 256, (n, *shape)).astype(np.uint8)


def expected_image(image, key, index, flip):
    """Return what augment_images should make of image number ``index``, pixel by pixel."""
    height, width, channels = image.shape
    padding = crop_padding(image.shape)
    down, along, mirror = uniform(key, 3, 3 * index)
    top, left = int(down * (2 * padding + 1)) - padding, int(along * (2 * padding + 1)) - padding
    result = np.zeros_like(image)
    for i in range(height):
        for j in range(width):
            row, column = i + top, (width - 1 - j if flip and mirror < 0.5 else j) + left
            if 0 <= row < height and 0 <= column < width:
                result[i, j] = image[row, column]
    return result


def test_every_image_is_a_crop_of_its_padded_self_perhaps_mirrored():
    images = images_of(40)
    for flip in (False, True):
        result = augment_images(images, 5, flip)
        assert result.dtype == np.uint8 and result.shape == images.shape
        for i, image in enumerate(images):
            assert np.array_equal(result[i], expected_image(image, 5, i, flip))


def test_every_offset_and_both_mirrorings_occur():
    marker = np.zeros((400, 8, 8, 1), np.uint8)
    marker[:, 3, 2] = 1
    places = set(zip(*np.nonzero(augment_images(marker, 0, True)[..., 0])[1:]))
    columns = {2, 5}  # the marked column and its mirror image
    assert places == {(3 + i, c + j) for i in (-1, 0, 1) for j in (-1, 0, 1) for c in columns}


def test_padding_is_four_for_cifar_and_never_nothing():
    assert [crop_padding((side, side)) for side in (32, 28, 8, 1)] == [4, 3, 1, 1]


def test_bytes_become_numbers_from_minus_1_to_1():
    x = normalize_images(np.array([0, 51, 255], np.uint8), "float32")
    assert x.dtype == np.float32 and np.array_equal(x, np.array([-1, -0.6, 1], np.float32))
