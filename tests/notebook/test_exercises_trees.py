"""The checks of notebook 11 tell right answers from the wrong ones that readers give."""

from fractions import Fraction

import pytest

from refimpl.notebook.exercises.trees import check_packing, check_parts, check_rate

HALF = Fraction(1, 2)
PATHS = [[(0, 1), (1, 2)], [(1, 2), (2, 0)], [(2, 0), (0, 1)]]


@pytest.mark.parametrize(("answer", "said"), [
    (300, "each card would send one vector"), (150, "its own part"), (100, "how many vectors")])
def test_the_rate_of_equal_cards(answer, said):
    assert check_rate(200).right and check_rate(300 / 1.5).right and check_rate(...).right is None
    assert check_rate(answer).right is False and said in check_rate(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    ([{0}, {1}, {2}, {3}, {4}, {5}], "no rate is higher than 7 / 5"), ([{0}, {1, 2, 3, 4, 5}], "higher than 2 / 1"),
    ([{0, 1, 2}, {3, 4}], "in exactly one"), ([{0, 1, 2}, {2, 3, 4, 5}], "in exactly one"),
    ([{0, 1, 2, 3, 4, 5}], "two parts or more")])
def test_a_cut(answer, said):
    assert check_parts([{0, 1, 2}, {3, 4, 5}]).right and check_parts(...).right is None
    assert check_parts(answer).right is False and said in check_parts(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    ([(1, PATHS[0])], "add up to 1"), ([(1, PATHS[0]), (HALF, PATHS[1])], "want 3/2 of the cable between 1 and 2"),
    ([(1, [(0, 1)])], "tree 0, [(0, 1)], does not join"), ([(1, [(0, 1), (1, 2), (2, 0)])], "does not join"),
    ([(1, [(0, 3), (3, 2)])], "does not join")])
def test_a_packing(answer, said):
    assert check_packing([(HALF, path) for path in PATHS]).right and check_packing(...).right is None
    assert check_packing([(0.5, [cable[::-1] for cable in path]) for path in PATHS]).right
    assert check_packing(answer).right is False and said in check_packing(answer).why
