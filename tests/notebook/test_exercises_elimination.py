"""The checks of the lesson about support vector machines tell right answers from the wrong ones that readers give."""

import pytest

from refimpl.notebook.exercises.elimination import check_bytes, check_may_go


def may_go(grows, shrinks, error, up, low):
    return (grows and not shrinks and error > low) or (shrinks and not grows and error < up)


@pytest.mark.parametrize(("answer", "said"), [
    (lambda grows, shrinks, error, up, low: (grows and error > low) or (shrinks and error < up), "its weight is free"),
    (lambda grows, shrinks, error, up, low: not (up <= error <= low), "its weight is free"),
    (lambda grows, shrinks, error, up, low: False, "it may go"),
    (lambda grows, shrinks, error, up, low: not (grows and shrinks), "it must stay")])
def test_may_go(answer, said):
    assert check_may_go(may_go).right and check_may_go(lambda *sample: ...).right is None
    assert check_may_go(answer).right is False and said in check_may_go(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    (7680, "two ends"), (1920, "these are numbers"), (245_760, "all ranks send together"), (1024, "to how many ranks"),
    (16_384, "nothing to itself"), (1, "for each sample two numbers")])
def test_bytes(answer, said):
    assert check_bytes(15_360).right and check_bytes(...).right is None
    assert check_bytes(answer).right is False and said in check_bytes(answer).why
