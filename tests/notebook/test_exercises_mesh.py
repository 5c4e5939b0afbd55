"""The checks of notebook 10 tell right from wrong, with a hint that fits the mistake."""

import numpy as np
import pytest

from refimpl.notebook.exercises.mesh import check_crossing, check_groups, check_input_gradient


def summed(grads, weights):
    return sum(grad @ weight for grad, weight in zip(grads, weights))


def crossing(parameters, inputs, outputs, members):
    return parameters / (members * inputs + outputs)


def groups(ranks, batch, inputs, outputs):
    return min((g for g in range(1, ranks + 1) if ranks % g == 0), key=lambda g: batch / g + outputs * g / ranks)


@pytest.mark.parametrize("check, answer", [(check_input_gradient, summed), (check_crossing, crossing),
                                           (check_groups, groups)])
def test_right_answers(check, answer):
    assert check(answer).right is True
    assert check(...).right is None and check(lambda *all_of_them: ...).right is None


@pytest.mark.parametrize("check, answer, hint", [
    (check_input_gradient, lambda grads, weights: grads[0] @ weights[0], "one member's part"),
    (check_input_gradient, lambda grads, weights: np.hstack([g @ w for g, w in zip(grads, weights)]), "but added up"),
    (check_input_gradient, lambda grads, weights: [g @ w for g, w in zip(grads, weights)], "but added up"),
    (check_input_gradient, lambda grads, weights: grads[0] @ weights[0].T, "ValueError"),
    (check_input_gradient, lambda grads, weights: -summed(grads, weights), "(2, 3) and weights (3, 5) of each should"),
    (check_crossing, lambda p, d, f, k: p / (k * (d + f)), "that is SplitBrain's"),
    (check_crossing, lambda p, d, f, k: p / (k * d + f) / 2, "the 2 stands on both sides"),
    (check_crossing, lambda p, d, f, k: p / (k * d), "you say 2049; set what is saved"),
    (check_crossing, lambda p, d, f: p, "TypeError"),
    (check_groups, lambda n, batch, i, o: round((n * batch / o) ** 0.5), "G divides N: 1"),
    (check_groups, lambda n, batch, i, o: n, "times the least"),
    (check_groups, lambda n, batch, i, o: 1, "N = 16, MB = 64, 512 -> 64: you say 1, which sends 2.5")])
def test_wrong_answers_get_a_hint(check, answer, hint):
    verdict = check(answer)
    assert verdict.right is False and hint in verdict.why
