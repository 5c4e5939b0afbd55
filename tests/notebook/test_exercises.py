"""A check of an exercise tells no answer, a wrong one and a right one apart, and never raises."""

from refimpl.notebook import exercise, right, wrong
from refimpl.notebook.exercises import answered


@exercise
def check_double(function):
    return right("doubled") if answered(function(4)) == 8 else wrong("try function(4)")


def test_the_three_verdicts():
    assert repr(check_double(...)) == "not answered yet" and check_double(...).right is None
    assert check_double(lambda x: ...).right is None, "the reader has not filled the function in"
    assert repr(check_double(lambda x: x + 4)) == "right: doubled"
    assert repr(check_double(lambda x: x * x)) == "not yet: try function(4)" and check_double(abs).right is False


def test_an_answer_that_cannot_be_checked_is_wrong_and_says_why():
    verdict = check_double(7)
    assert verdict.right is False and "TypeError: 'int' object is not callable" in verdict.why
