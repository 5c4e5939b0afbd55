"""The space of semantics: each deviation shows in some case."""

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from refimpl.conformance.adapters.reference import EVERYTHING
from refimpl.conformance.case import Rows, numbers_of
from refimpl.conformance.cases import all_cases, case_named
from refimpl.conformance.compare import differences
from refimpl.conformance.diagnose.search import tried
from refimpl.conformance.kinds import KINDS
from refimpl.conformance.space import by_rule, contributions, sums
from refimpl.conformance.space.deviation import Impossible, Place
from refimpl.conformance.space.optimizers import LINES
from refimpl.conformance.space.training import TrainingAnswers

RANKS = 3
OF_BITS = {"order=tree", "lost-digits"}
"""Deviations that a tolerance allows: they show in bits, or in digits that are not there."""
OF_AGGREGATION = {
    "group-divided-by-world", "divided-by-holders", "divided-by-pushers", "matched-by-position", "kinds-mixed",
    "small-lost", "nan-to-zero", "denormals-flushed", "half-overflow", "ids-float32", "ids-int32",
    "ids-int16", "offsets-int32", "offsets-differ", "padding-added", "group-ranks-as-places",
    *(code for code, *_ in contributions.BAGS), "ids-clamped", "last-row-lost", "tail-lost", "clamped",
    "use-miscounted", "uses-averaged", "absent-left-out", "absent-stale", "counts-of-rank-0",
    "buffer-shared"}
"""Deviations of aggregation, which its own cases show: trainings need not show them again."""
EQUAL = {"root-ignored", "staleness-per-worker", "rate-line", "clip-factor",
         *(f"{name}-{line}" for name, (_, *lines) in LINES.items() for line in lines)}
"""What changes nothing: a broadcast from the root, the staleness of a dense variable, a formula's swapped factors."""


@cache
def cases_of(machine):
    return [case for case in all_cases(RANKS)
            if KINDS[case.kind].machine is machine and not case.settings.get("refused")]


@cache
def expected(number: int, machine):
    return KINDS[(case := cases_of(machine)[number]).kind].expect(case, EVERYTHING)


def shows(machine, deviation, number, case) -> bool:
    """Return whether a machine that deviates gives a number of a case otherwise."""
    deviates = machine(case, EVERYTHING, (deviation,))
    for step, wanted in enumerate(expected(number, machine)):
        for name, want in wanted.items():
            ranks = case.settings.get("group", case.settings.get("holders", {}).get(name, range(RANKS)))
            if any(differs(deviates, Place(step, rank, case.variable(name)), want) for rank in ranks):
                return True
    return False


def differs(machine, place, want) -> bool:
    try:
        found = machine.answer(place).value
    except Impossible:
        return False
    rows = isinstance(want.value, Rows)
    return (numbers_of(found).shape[rows:] != numbers_of(want.value).shape[rows:]
            or bool(differences(found, replace(want, canonical=None))[2].any()))


@pytest.mark.parametrize("machine", dict.fromkeys(kind.machine for kind in KINDS.values() if kind.machine),
                         ids=lambda machine: machine.__name__)
@pytest.mark.thorough("Aggregation", "Loss", "Broadcast", "Served", "Stepped")
def test_every_deviation_shows_in_a_case(machine):
    """What shows in none could be wrong in any implementation, and nobody would see it: it needs a case."""
    hidden = set()
    with np.errstate(all="ignore"):
        for deviation in tried(machine, EVERYTHING, cases_of(machine)):
            if not any(deviation.concerns(case) and shows(machine, deviation, i, case)
                       for i, case in enumerate(cases_of(machine))):
                hidden.add(deviation.code)
    allowed = OF_BITS | EQUAL | (OF_AGGREGATION if machine.__name__ == "TrainingAnswers" else set())
    assert hidden <= allowed, hidden - allowed


def test_a_mistake_in_a_number_and_one_in_a_count_have_unlike_names():
    of_numbers, of_counts = ({d.code for d in found} for found in (by_rule.wrong_numbers("rate", "the learning rate"),
                                                                   by_rule.wrong_counts()))
    assert not of_numbers & of_counts


def test_shared_sums_are_kept_apart_by_rank():
    """Trainings on the same gradients share their sums. Of a scan each rank has a sum of its own."""
    case, scan = case_named("update/sgd", 2), next(d for d in sums.deviations(2) if "a scan" in d.words)
    alone, sharing = (TrainingAnswers(case, EVERYTHING, (scan,)) for _ in range(2))
    sharing.base = TrainingAnswers(case, EVERYTHING)
    places = [Place(0, rank, case.variable("weight")) for rank in (0, 1)]
    assert [sharing.total(p).value.tolist() for p in places] == [alone.total(p).value.tolist() for p in places]
