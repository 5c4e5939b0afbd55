"""The arena: views share the buffer; a range of it knows whose bytes it holds."""

import numpy as np
import pytest

from models import Variable
from refimpl.gradients import Arena, DenseTree, Layout

VARIABLES = [Variable("a", (2, 3)), Variable("empty", (0, 4)), Variable("scalar", ()), Variable("b", (5,))]


def test_views_share_the_buffer():
    arena = Arena(Layout.of(VARIABLES))
    arena["b"][:] = 7
    assert arena.flat.tolist() == [0] * 7 + [7] * 5
    other = Arena(arena.layout).fill({"a": np.arange(6).reshape(2, 3)})
    assert arena.add(other).flat.tolist() == [0, 1, 2, 3, 4, 5, 0] + [7] * 5
    assert arena.add({"scalar": np.float32(4)})["scalar"] == 4


def test_overlaps_say_whose_elements_a_range_holds():
    layout = Layout.of(VARIABLES)
    assert layout.overlaps(0, 12) == {"a": 6, "scalar": 1, "b": 5}
    assert layout.overlaps(4, 8) == {"a": 2, "scalar": 1, "b": 1}
    assert layout.overlaps(7, 7) == {} and layout.overlaps(6, 7) == {"scalar": 1}
    for cut in range(13):
        left, right = layout.overlaps(0, cut), layout.overlaps(cut, 12)
        assert {n: left.get(n, 0) + right.get(n, 0) for n in ("a", "scalar", "b")} == {"a": 6, "scalar": 1, "b": 5}


def test_two_dtypes_are_refused():
    with pytest.raises(ValueError, match="one dtype"):
        Layout.of([Variable("a", (1,)), Variable("b", (1,), dtype="float64")])


def test_an_odd_microbatch_is_added_without_an_arena_of_its_own():
    tree = DenseTree(Layout.of(VARIABLES), np)
    for leaf in range(8):
        tree.push(leaf, {"scalar": np.float32(leaf)})
    [(_, whole)] = tree.take()
    assert whole.flat.tolist() == [0] * 6 + [28] + [0] * 5 and len(tree.free) == 2
