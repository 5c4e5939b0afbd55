"""The checks of notebooks 4 and 5 tell right from wrong, and say where to look."""

import subprocess
import sys

import pytest

from refimpl.notebook.exercises.hybrid import WISHES, check_crossing, check_kernel, check_plan
from refimpl.notebook.exercises.partitions import check_busiest, check_curve, check_union

PLAN = {"filters": "allreduce", "words": "server", "tags": "server", "positions": "as-dense"}


def test_right_answers():
    assert check_kernel((1_572_864, 3_145_728)).right
    assert check_plan(PLAN).right
    assert check_crossing(lambda d: (4 * d + 4) / (4 * d + 8)).right
    assert check_curve((1, 8, 1), 3).right
    assert check_busiest(lambda p, n: -(-p // n) / p).right
    assert check_union((7, 5)).right


def test_a_plan_is_checked_where_nothing_else_was_imported():
    """Strategies register themselves when they are imported: whoever starts with exercise 2 has imported none."""
    code = f"from refimpl.notebook.exercises.hybrid import check_plan; print(check_plan({PLAN}).right)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "True\n"


@pytest.mark.parametrize(("verdict", "hint"), [
    (lambda: check_kernel((1_572_864, 1_572_864)), "both directions"),
    (lambda: check_kernel((524_288, 3_145_728)), "4 w (N - 1) / N"),
    (lambda: check_plan({**PLAN, "filters": "server"}), "filters by server: another way"),
    (lambda: check_plan({**PLAN, "tags": "allgather"}), "tags by allgather: another way puts 4.00 times less"),
    (lambda: check_plan({**PLAN, "positions": "server"}), "positions by server"),
    (lambda: check_plan({**PLAN, "words": "allreduce"}), "words is sparse: it can go server"),
    (lambda: check_plan({**PLAN, "words": ...}), "words: which way?"),
    (lambda: check_crossing(lambda d: 1.0), "for 64 columns you say 1"),
    (lambda: check_crossing(lambda d: 0 / 0), "ZeroDivisionError"),
    (lambda: check_curve((2, 8, 1), 3), "at P = 1 your curve says 11 s"),
    (lambda: check_curve((1, 8, 1), 2), "compare its two neighbours"),
    (lambda: check_curve((1, 8), 2), "IndexError"),
    (lambda: check_busiest(lambda p, n: 1 / p), "for P = 9 on 4 ranks you say 0.1111"),
    (lambda: check_union((5, 5)), "count both lists"),
    (lambda: check_union((7, 2)), "union"),
])
def test_wrong_answers_are_refused_with_a_hint(verdict, hint):
    found = verdict()
    assert found.right is False and hint in found.why


def test_no_answer_is_no_mistake():
    nothing = [check_kernel(...), check_plan({name: ... for name in WISHES}), check_crossing(lambda d: ...),
               check_curve(..., ...), check_busiest(lambda p, n: ...), check_union(...)]
    assert [verdict.right for verdict in nothing] == [None] * 6
