"""The checks of notebooks 8, 9 and 10 tell right from wrong, with a hint that fits the mistake."""

import numpy as np
import pytest

from models import Variable
from models.nmt import PRESETS, TranslationModel
from refimpl.notebook.exercises.mesh import check_crossing, check_groups, check_input_gradient
from refimpl.notebook.exercises.translation import DENSE, ROWS, SPARSE, check_attend, check_gain, check_most
from refimpl.notebook.exercises.without_barriers import SECONDS, check_answers, check_compensated, check_step_seconds
from refimpl.pictures.without_barriers import Watched, seen
from refimpl.plain.hybrid import Options
from refimpl.plain.scripted_clock import run

PARTS = DENSE / (DENSE + SPARSE), SPARSE / (DENSE + SPARSE)


def attend(scores, vectors, length):
    weights = np.exp(scores[:length] - scores[:length].max())
    return weights @ vectors[:length] / weights.sum()


def everywhere(scores, vectors, length):
    return attend(scores, vectors, len(scores))


def gain(dense, sparse, alpha, ranks):
    return (dense + min(alpha * ranks / 2, 1) * sparse) / (dense + alpha * sparse)


def ordered(seconds, backup):
    return sorted(seconds)[len(seconds) - backup - 1]


def summed(grads, weights):
    return sum(grad @ weight for grad, weight in zip(grads, weights))


def crossing(parameters, inputs, outputs, members):
    return parameters / (members * inputs + outputs)


def groups(ranks, batch, inputs, outputs):
    return min((g for g in range(1, ranks + 1) if ranks % g == 0), key=lambda g: batch / g + outputs * g / ranks)


def test_the_numbers_are_the_papers():
    model = TranslationModel(**PRESETS["paper"])
    assert [sum(v.size for v in model.variables if v.sparse == sparse) for sparse in (False, True)] == [DENSE, SPARSE]
    assert model.vocabularies == (ROWS, ROWS)


@pytest.mark.parametrize("check, answer", [
    (check_attend, attend), (check_gain, gain), (check_most, PARTS[0] + PARTS[1] * 128 * 51 / ROWS),
    (check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) <= s), (check_step_seconds, ordered),
    (check_compensated, lambda g, w, b, lam: g + lam * g**2 * (w - b)),
    (check_input_gradient, summed), (check_crossing, crossing), (check_groups, groups)])
def test_right_answers(check, answer):
    assert check(answer).right is True and check(...).right is None
    assert not callable(answer) or check(lambda *all_of_them: ...).right is None


@pytest.mark.parametrize("check, answer, hint", [
    (check_attend, everywhere, "2 words: a word that the sentence does not have"),
    (check_attend, lambda e, m, n: np.exp(e[:n]) @ m[:n] / np.exp(e[:n]).sum(), "subtract the largest score"),
    (check_attend, lambda e, m, n: np.exp(e[:n]) @ m[:n], "by their sum"),
    (check_attend, lambda e, m, n: np.exp(e[:n]), "as many numbers as a vector"),
    (check_gain, lambda d, s, alpha, n: (d + alpha * n / 2 * s) / (d + alpha * s), "that is rows by allgather"),
    (check_gain, lambda d, s, alpha, n: (d + s) / (d + alpha * s), "that is tables sent whole"),
    (check_gain, lambda d, s, alpha, n: min(n / 2, 1 / alpha), "dense elements are moved, too"),
    (check_gain, lambda d, s, alpha, n: 1.0, "a dense element costs"),
    (check_most, 128 * 51 / ROWS, "of one table"), (check_most, PARTS[1] * 128 * 51 / ROWS, "dense elements are"),
    (check_most, 1.0, "at most 128 sentences"),
    (check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) < s, "is 0 steps ahead of the slowest, and "
     "you let it wait: a lag of S is allowed"),
    (check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) <= s + 1, "its lag reaches S + 1"),
    (check_answers, lambda clocks, worker, s: True, "you let it go on"),
    (check_answers, lambda clocks, worker, s: max(clocks) - clocks[worker] <= s, "steps ahead of the slowest"),
    (check_answers, lambda clocks: True, "TypeError"),
    (check_step_seconds, lambda seconds, backup: max(seconds), "you say 3 s; that is longer than need be: 3"),
    (check_step_seconds, lambda seconds, backup: sorted(seconds)[len(seconds) - backup], "IndexError"),
    (check_step_seconds, lambda seconds, backup: sorted(seconds)[-max(backup, 1)], "3 pushes are enough"),
    (check_step_seconds, lambda seconds, backup: sum(seconds) / len(seconds), "in which they arrive"),
    (check_compensated, lambda g, w, b, lam: g, "stale gradient"),
    (check_compensated, lambda g, x, old, lam: g + lam * g**2 * (old - x), "not from x to old"),
    (check_compensated, lambda g, w, b, lam: g + lam * g * (w - b), "g times g"),
    (check_compensated, lambda g, w, b, lam: lam * g**2 * (w - b), "add it to g"),
    (check_compensated, lambda g, w, b, lam: g + lam * g**3 * (w - b), "another vector"),
    (check_compensated, lambda g, w, b, lam: np.ones(3), "another vector"),
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


class Still:
    """Pushes nothing that would move anything."""

    def needs(self, clock):
        return {}

    def gradients(self, clock, values):
        return {"w": np.zeros(1)}


@pytest.mark.parametrize("seconds", SECONDS, ids=str)
def test_the_order_statistic_is_what_the_scripted_clock_does(seconds):
    variables, workers = [Variable("w", (1,), dtype="float64")], len(seconds)
    for backup in range(workers):
        owner = Watched(0, 1, workers, 1, variables, Options("sgd", 1.0), f"backup:{backup}")
        happened = run([owner], [Still()] * workers, variables, seconds)
        assert seen(happened, owner).updates == (ordered(seconds, backup),)
