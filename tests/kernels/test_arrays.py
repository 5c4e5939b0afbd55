"""A read-only view is the array itself, and nobody writes through it."""

import numpy as np
import pytest

from kernels.arrays import read_only

ARRAYS = [np.arange(12.0, dtype="f").reshape(3, 4), np.array(2.0), np.zeros((0, 4)), np.zeros(3, bool),
          np.arange(24).reshape(4, 6)[::-1, ::2], np.zeros(3, np.uint8), np.zeros(2, "datetime64[s]"),
          np.ma.asarray(np.ones(3))]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}-{array.shape}")
def test_it_is_the_array(array):
    view = read_only(array)
    assert type(view) is type(array) and view.dtype == array.dtype and view.shape == array.shape
    assert not view.size or np.shares_memory(view, array) and view.strides == array.strides
    assert array.flags.writeable and not view.flags.writeable and read_only(view).tobytes() == array.tobytes()


def test_nobody_makes_it_writable_again():
    array = np.zeros(3)
    view = read_only(array)
    for write in (lambda: view.fill(1), lambda: view.setflags(write=True), lambda: view[1:].setflags(write=True)):
        with pytest.raises(ValueError):
            write()
    assert read_only("text") == "text" and not array.any()
