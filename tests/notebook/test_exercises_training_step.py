"""The checks of notebook 0 tell right answers from the wrong ones that readers give."""

import numpy as np
import pytest

from refimpl.notebook.exercises.training_step import check_combine, check_gradient, check_step


@pytest.mark.parametrize(("answer", "said"), [
    (3.05, "points uphill"), (2.5, "the rate"), (2.9, "the derivative, too"), (0, "rate * derivative")])
def test_a_step(answer, said):
    assert check_step(3.0 - 0.1 * 0.5).right and check_step(...).right is None
    assert check_step(answer).right is False and said in check_step(answer).why


def gradient(factor=2.0, mean=np.mean, names=slice(None)):
    def found(parameters, x, y):
        s, c, q = parameters
        error = s * x + c + q * x**2 - y
        return [mean(factor * error * of) for of in (x, 1, x**2)][names]

    return found


@pytest.mark.parametrize(("answer", "said"), [
    (gradient(1), "what does the square become"), (gradient(mean=np.sum), "a mean, not a sum"),
    (gradient(-2), "error = prediction - y"), (gradient(3), "for s finite differences give"),
    (gradient(names=slice(2)), "each of the three"), (gradient(mean=lambda each: each), "the mean over the examples")])
def test_a_gradient(answer, said):
    assert check_gradient(gradient()).right
    assert check_gradient(lambda *given: [...] * 3).right is None
    assert check_gradient(answer).right is False and said in check_gradient(answer).why


@pytest.mark.parametrize(("answer", "said"), [
    (lambda means, sizes: np.mean(means, axis=0), "every machine counts the same"),
    (lambda means, sizes: np.dot(sizes, means), "the sum over all examples"),
    (lambda means, sizes: means[0], "from its mean and its size")])
def test_parts_of_other_sizes(answer, said):
    assert check_combine(lambda means, sizes: np.dot(sizes, means) / sum(sizes)).right
    assert check_combine(lambda means, sizes: ...).right is None
    assert check_combine(answer).right is False and said in check_combine(answer).why
