"""A check of an exercise tells no answer, a wrong one and a right one apart, and never raises: each check of each lesson.

Solutions are executed with the notebooks.
"""

import subprocess
import sys

import numpy as np
import pytest
from exercise_answers import PLAN, RIGHT, UNFINISHED, WRONG, curve, ordered, rank_2

from models import Variable
from models.nmt import PRESETS, TranslationModel
from refimpl.conformance.cases import all_cases
from refimpl.conformance.diagnose import summary
from refimpl.conformance.runner import run_local
from refimpl.notebook import exercise, right, wrong
from refimpl.notebook.exercises import answered
from refimpl.notebook.exercises.numbers import SUSPECT, check_bug
from refimpl.notebook.exercises.parameter_server import bytes_of
from refimpl.notebook.exercises.translation import DENSE, ROWS, SPARSE
from refimpl.notebook.exercises.without_barriers import SECONDS
from refimpl.pictures.without_barriers import Watched, seen
from refimpl.plain.training.hybrid import Options
from refimpl.plain.without_barriers.scripted_clock import run


@exercise
def check_double(function):
    return right("doubled") if answered(function(4)) == 8 else wrong("try function(4)")


def test_the_three_verdicts():
    assert repr(check_double(...)) == "not answered yet" and check_double(...).right is None
    assert check_double(lambda x: ...).right is None, "the reader has not filled the function in"
    assert repr(check_double(lambda x: x + 4)) == "right: doubled"
    assert repr(check_double(lambda x: x * x)) == "not yet: try function(4)" and check_double(abs).right is False
    assert "TypeError: 'int' object is not callable" in check_double(7).why and check_double(7).right is False


@pytest.mark.parametrize("check, answer", RIGHT)
def test_right_answers(check, answer):
    assert check(answer).right is True


@pytest.mark.parametrize("check, answer", UNFINISHED + [
    (check, ...) for check, _ in RIGHT if check not in (rank_2, curve)])
def test_no_answer_is_no_mistake(check, answer):
    assert check(answer).right is None


@pytest.mark.parametrize("check, answer, hint", WRONG)
def test_wrong_answers_get_a_hint(check, answer, hint):
    verdict = check(answer)
    assert verdict.right is False and hint in verdict.why


def test_lesson_2_has_the_bytes_of_its_worked_example():
    assert {direction: sum(each.values()) for direction, each in bytes_of(1).items()} == {"sent": 52, "received": 68}
    sent, received = (sum(sum(bytes_of(r)[direction].values()) for r in range(4)) for direction in ("sent", "received"))
    assert sent == received


def test_a_plan_is_checked_where_nothing_else_was_imported():
    """Strategies register themselves when they are imported: whoever starts with exercise 2 has imported none."""
    code = f"from refimpl.notebook.exercises.hybrid import check_plan; print(check_plan({PLAN}).right)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


def test_the_suspects_code_is_what_the_suite_says():
    cases = [case for case in all_cases(4) if case.name.startswith("rows/ids")]
    (diagnosis, _), = summary(run_local(SUSPECT, 4, cases).failed)
    assert check_bug(diagnosis.code).right


def test_lesson_8_has_the_papers_numbers():
    model = TranslationModel(**PRESETS["paper"])
    assert [sum(v.size for v in model.variables if v.sparse == sparse) for sparse in (False, True)] == [DENSE, SPARSE]
    assert model.vocabularies == (ROWS, ROWS)


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
