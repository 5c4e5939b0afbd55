"""A file written in pieces is the file that the safetensors library writes."""

import hashlib

import numpy as np
import pytest
from safetensors.numpy import save

from refimpl.training.run.tensor_file import header_of, in_file_order, name_of, write_pieces

NAMES = ["b", "B", "ä/é", 'quote"back\\slash', "line\nend\x01", "", "a", "aa", "z", "parameter/x", "state/m/x", "0", "~"]
DTYPES = ["?", "u1", "i1", "i2", "u2", "f2", "i4", "u4", "f4", "c8", "f8", "i8", "u8"]
SHAPES = [(), (0,), (1,), (3, 0, 2), (5,), (2, 3)]


@pytest.mark.parametrize("seed", range(5))
def test_the_file_is_that_of_the_library(tmp_path, seed):
    rng = np.random.default_rng(seed)
    arrays = {name: np.array(rng.integers(0, 2, SHAPES[rng.integers(len(SHAPES))]), dtype)
              for name, dtype in zip(rng.permutation(NAMES).tolist(), rng.permutation(DTYPES))}
    kinds = {key: (array.dtype, array.shape) for key, array in arrays.items()}
    pieces = [header_of(kinds), *(arrays[key].tobytes() for key in in_file_order(kinds))]
    digest, size = write_pieces(tmp_path / "file", pieces)
    written = (tmp_path / "file").read_bytes()
    assert written == save(arrays) and size == len(written) and digest == hashlib.sha256(written).hexdigest()


@pytest.mark.parametrize("dtype", ["datetime64[s]", "O", "f16", "c16", "U3"])
def test_a_dtype_that_the_format_lacks_is_refused(dtype):
    with pytest.raises(ValueError, match="cannot hold arrays of dtype"):
        name_of(dtype)
