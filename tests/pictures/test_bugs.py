"""What a bug does to rows, as numbers and as a picture."""

from mutants.aggregation import SparseNotAveraged
from refimpl.conformance.adapters.reference import Reference
from refimpl.notebook.exercises.numbers import DividedByPushes
from refimpl.pictures.bugs import draw_row_factors, row_factors


def test_factors_of_a_right_implementation_and_of_two_wrong_ones():
    assert row_factors(Reference, 3) == {1: [1.0], 2: [1.0], 3: [1.0]}
    assert row_factors(SparseNotAveraged, 4) == dict.fromkeys((1, 2, 3, 4), [4.0])
    assert row_factors(DividedByPushes, 4) == {1: [4.0], 2: [2.0], 3: [1.333333], 4: [1.0]}


def test_the_picture_says_so():
    drawn = draw_row_factors({"ours": Reference, "theirs": DividedByPushes})
    assert drawn.alt.endswith("ours, 1 1 1 1; theirs, 4 2 1.333 1")
    assert drawn.numbers.splitlines()[2].split() == ["2", "1", "2"]
