"""The checks of notebook 9 tell right from wrong, with a hint that fits the mistake."""

import numpy as np
import pytest

from models import Variable
from refimpl.notebook.exercises.without_barriers import SECONDS, check_answers, check_compensated, check_step_seconds
from refimpl.pictures.without_barriers import Watched, seen
from refimpl.plain.hybrid import Options
from refimpl.plain.scripted_clock import run


def ordered(seconds, backup):
    return sorted(seconds)[len(seconds) - backup - 1]


@pytest.mark.parametrize("check, answer", [
    (check_answers, lambda clocks, worker, s: clocks[worker] - min(clocks) <= s),
    (check_step_seconds, ordered),
    (check_compensated, lambda g, w, b, lam: g + lam * g**2 * (w - b))])
def test_right_answers(check, answer):
    assert check(answer).right is True
    assert check(...).right is None and check(lambda *all_of_them: ...).right is None


@pytest.mark.parametrize("check, answer, hint", [
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
    (check_compensated, lambda g, w, b, lam: np.ones(3), "another vector")])
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
