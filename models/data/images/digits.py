"""``digits``: 1,797 handwritten digits of 8 × 8 pixels that come with scikit-learn."""

import numpy as np

from kernels.random import key_of, random_bits
from models.data.contents import Images
from models.data.files import DataError

HELDOUT = 297


def load_digits() -> Images:
    """Return 1,500 images to train on and 297 held out, in a fixed random order. Local. Raises DataError.

    The values 0 … 16 are scaled to 0 … 255.  The images are reordered because the file is sorted by writer.
    """
    try:
        from sklearn.datasets import load_digits as read_digits
    except ImportError:
        raise DataError("the digits come with scikit-learn, which is not installed; pip install scikit-learn") from None
    digits = read_digits()
    order = np.argsort(random_bits(key_of("digits"), len(digits.target)))
    images = ((digits.images.astype(np.int64) * 255 + 8) // 16).astype(np.uint8)[order, :, :, None]
    labels = digits.target.astype(np.int64)[order]
    return Images("digits", images[:-HELDOUT], labels[:-HELDOUT], images[-HELDOUT:], labels[-HELDOUT:],
                  len(digits.target_names), augment=False)  # a shift would lose too much of 8 x 8 pixels
