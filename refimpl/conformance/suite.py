"""The suite under pytest, one test a case and number of ranks. Run it in the target's own environment:

    REFIMPL_TARGET=my_adapter pytest --pyargs refimpl.conformance.suite

REFIMPL_RANKS="1 2 4" (default "1 2 3 4") says on how many ranks; REFIMPL_EXPECTED_FAILURES=FILE which may fail.
"""

import os
from functools import cache

import pytest

from refimpl.conformance.cases import all_cases
from refimpl.conformance.report.expected import ExpectedFailures, read_expected
from refimpl.conformance.runner import run_target

TARGET = os.environ.get("REFIMPL_TARGET")
RANKS = [int(n) for n in os.environ.get("REFIMPL_RANKS", "1 2 3 4").split()]
FILE = os.environ.get("REFIMPL_EXPECTED_FAILURES")
EXPECTED = read_expected(FILE) if FILE else ExpectedFailures()


@cache
def verdicts(ranks: int) -> dict:
    """Return case -> verdict; all cases of a number of ranks run in one go."""
    return {verdict.case: verdict for verdict in run_target(TARGET, ranks).verdicts}


@pytest.mark.skipif(not TARGET, reason="REFIMPL_TARGET names no adapter")
@pytest.mark.parametrize(("ranks", "case"), [(n, case.name) for n in RANKS for case in all_cases(n)])
def test_case(ranks, case):
    """The target's answers to one case are what its manifest promises, or fail as expected."""
    verdict, reason = verdicts(ranks)[case], EXPECTED.reason(case, ranks)
    if verdict.status == "skipped":
        pytest.skip(verdict.why)
    if verdict.status == "failed":
        words = f"{verdict.diagnosis.words}\n{verdict.diagnosis.evidence}\n{verdict.why}"
        pytest.xfail(reason) if reason else pytest.fail(words, pytrace=False)
    if reason:
        pytest.fail(f"passes now: take it off the list of expected failures ({reason})", pytrace=False)
