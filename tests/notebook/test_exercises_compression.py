"""The checks of the lesson about codecs tell right answers from the wrong ones that readers give."""

import pytest

from refimpl.notebook.exercises.compression import check_feedback, check_microbatches


def step(gradient, residual, codec):
    v = gradient + residual
    return codec(v), v - codec(v)


@pytest.mark.parametrize(("answer", "said"), [
    (lambda g, e, codec: codec(g + e), "return two arrays"), (lambda g, e, codec: (codec(g), g - codec(g)), "never sent"),
    (lambda g, e, codec: (g + e, 0 * g), "what is encoded is the gradient and"),
    (lambda g, e, codec: (codec(g + e), g - codec(g + e)), "sent and kept together")])
def test_feedback(answer, said):
    assert check_feedback(step).right and check_feedback(lambda *given: ...).right is None
    assert check_feedback(answer).right is False and said in check_feedback(answer).why


@pytest.mark.parametrize(("answer", "said"), [(8, "divide one by the other"), (32, "each number twice"), (1, "equal to")])
def test_microbatches(answer, said):
    assert check_microbatches(64).right and check_microbatches(...).right is None
    assert check_microbatches(answer).right is False and said in check_microbatches(answer).why
