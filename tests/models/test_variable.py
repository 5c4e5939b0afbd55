"""Initial values depend on the variable's name and the seed, never on who holds which rows."""

import numpy as np
import pytest

from models import Constant, Uniform, Variable


@pytest.mark.parametrize("shape", [(11, 3), (700, 4096), (5,), (4, 3, 2)])
@pytest.mark.parametrize("stride", [1, 2, 7])
def test_rows_of_a_partition_are_rows_of_the_whole(shape, stride):
    variable = Variable("w", shape, initial=Uniform(0.1))
    whole = variable.initial_value(3)
    assert whole.shape == shape and whole.dtype == np.float32 and 0.09 < abs(whole).max() <= 0.1 or whole.size < 50
    for start in range(min(stride, shape[0])):
        assert variable.initial_rows(3, start, None, stride).tobytes() == whole[start::stride].tobytes()
    assert variable.initial_rows(3, 2, 4).tobytes() == whole[2:4].tobytes()
    assert variable.initial_rows(3, 4, 2).shape == (0, *shape[1:])


def test_name_and_seed_matter():
    a, b = Variable("a", (50,), initial=Uniform(1)), Variable("b", (50,), initial=Uniform(1))
    assert not np.array_equal(a.initial_value(0), b.initial_value(0))
    assert not np.array_equal(a.initial_value(0), a.initial_value(1))


def test_constants_scalars_and_empty():
    assert Variable("s", (), initial=Constant(2)).initial_value(0) == 2
    assert Variable("e", (0, 3), initial=Uniform(1)).initial_value(0).shape == (0, 3)


def test_a_sparse_variable_has_two_axes():
    with pytest.raises(ValueError, match="two axes"):
        Variable("bias", (10,), sparse=True)


def test_what_is_unambiguous_is_taken():
    for shape in ([3, 4], np.array([3, 4]), (np.int32(3), 4)):
        for dtype in (np.float32, "f4", np.dtype("float32")):
            variable = Variable("w", shape, dtype=dtype, decays=np.False_)
            assert variable == Variable("w", (3, 4), decays=False) and type(variable.shape[0]) is int


@pytest.mark.parametrize("arguments, words", [
    (("", ()), "is called ''"), ((3, ()), "is called 3"), (("a\0b", ()), "without NUL"),
    (("w", 4), "shape 4: write a tuple"), (("w", (3, -1)), "none below 0"), (("w", (3.0,)), "shape (3.0,)"),
    (("w", (True,)), "shape (True,)"), (("w", "34"), "shape '34'"), (("w", None), "shape None"),
    (("w", (), 1), "sparse=1: write True or False"), (("w", (), False, 0.5), "write Constant(value)"),
    (("w", (), False, Uniform), "write Constant(value)"), (("w", (), False, Constant(), None), "dtype None"),
    (("w", (), False, Constant(), "half a float"), "write 'float32' or 'float64'"),
])
def test_what_is_not_is_refused_with_what_to_write(arguments, words):
    with pytest.raises(ValueError) as caught:
        Variable(*arguments)
    assert words in str(caught.value)
