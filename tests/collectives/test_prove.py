"""Schedules are proved on symbols; every planted fault is caught."""

import re
from dataclasses import replace

import numpy as np
import pytest

from refimpl.collectives import (
    ALGORITHMS, HALVES, Round, Schedule, ScheduleError, Sum, Transfer, complaint, make_schedule, prove, run_local,
)
from refimpl.gradients import Node

EVERY_CASE = [(name, "allreduce") for name in ALGORITHMS] + [(name, kind) for name in HALVES
                                                             for kind in ("reduce-scatter", "allgather")]
MACHINES = {3: ((0, 1), (2,)), 4: ((0, 1), (2, 3)), 5: ((0, 1, 2), (3, 4))}


def planted_schedules():
    """Yield schedules of every algorithm and half for small numbers, some with several inputs a rank."""
    for name, kind in EVERY_CASE:
        for ranks, leaves in ((4, 4),) if name == "halving-doubling" else ((3, 3), (4, 8), (5, 7)):
            machines = MACHINES[ranks] if name == "hierarchical" else None
            yield make_schedule(name, ranks, leaves, kind, machines)


def identify(schedule):
    return f"{schedule.name}-{schedule.kind}-{schedule.ranks}-{sum(map(len, schedule.inputs))}"


def with_round(schedule, number, step):
    return replace(schedule, rounds=schedule.rounds[:number] + (step,) + schedule.rounds[number + 1:])


def faults(schedule):
    """Yield the schedule with one fault: a lost, doubled or misdirected transfer or sum, or a wrong chunk."""
    ranks, chunks = schedule.ranks, schedule.chunks
    for number, step in enumerate(schedule.rounds):
        for i, t in enumerate(step.transfers):
            changed = [(), (t, t), (t._replace(destination=(t.destination + 1) % ranks),),
                       (t._replace(source=(t.source + 1) % ranks),), (t._replace(destination=ranks),)]
            if chunks > 1:
                moved = (t.start + 1) % chunks
                changed += [(t._replace(start=moved, stop=moved + 1),), (t._replace(stop=chunks + 1),)]
            for planted in changed:
                transfers = step.transfers[:i] + planted + step.transfers[i + 1:]
                yield with_round(schedule, number, Round(transfers, step.sums))
        for i, s in enumerate(step.sums):
            for planted in ((), (s, s), (s._replace(rank=(s.rank + 1) % ranks),)):
                yield with_round(schedule, number, Round(step.transfers, step.sums[:i] + planted + step.sums[i + 1:]))


def runs_right(schedule):
    """Return whether a run over base-4 digits, one for each input, gives what ``schedule.kind`` promises."""
    size = schedule.chunks
    bounds = schedule.bounds(size)
    digits = iter([4**i for i in range(sum(map(len, schedule.inputs)))])
    arrays = [[np.full(size, next(digits)) for _ in nodes] or [np.full(size, -1)] for nodes in schedule.inputs]
    if schedule.moves:
        for chunk, owner in enumerate(schedule.owners):
            arrays[owner][0][bounds[chunk]:bounds[chunk + 1]] = 1
    wanted = 1 if schedule.moves else sum(4**i for i in range(sum(map(len, schedule.inputs))))
    found = run_local(schedule, arrays)
    return all((found[rank][bounds[chunk]:bounds[chunk + 1]] == wanted).all()
               for rank in range(schedule.ranks) for chunk in range(schedule.chunks) if schedule.ends_with(rank, chunk))


@pytest.mark.parametrize("schedule", list(planted_schedules()), ids=identify)
def test_planted_faults_are_caught(schedule):
    prove(schedule)
    assert runs_right(schedule)
    for faulty in faults(schedule):
        try:
            prove(faulty)
        except ScheduleError as caught:  # chunk, rank and round are named
            assert re.search(r"(round \d|never written)", str(caught)) and re.search("chunk|start=", str(caught))
            assert re.search(r"rank \d|source=\d+, destination=\d", str(caught))
            continue
        assert runs_right(faulty), faulty  # the change has changed nothing, such as whose equal sum is passed on
        assert [len(step.transfers) for step in faulty.rounds] == [len(step.transfers) for step in schedule.rounds]


@pytest.mark.parametrize("schedule", list(planted_schedules()), ids=identify)
def test_reordered_rounds_are_caught_unless_they_may_be(schedule):
    for i in range(len(schedule.rounds)):
        for j in range(i):
            rounds = list(schedule.rounds)
            rounds[i], rounds[j] = rounds[j], rounds[i]
            reordered = replace(schedule, rounds=tuple(rounds))
            try:
                prove(reordered)
            except ScheduleError:
                continue
            assert runs_right(reordered)


def test_a_reordered_sum_may_be_right_and_is_not_canonical():
    schedule = make_schedule("recursive-doubling", 4, 4)
    assert prove(schedule).canonical and not prove(replace(schedule, rounds=schedule.rounds[::-1])).canonical


def two_ranks(*rounds, chunks=2):
    return Schedule("toy", chunks, ((Node(0, 0),), (Node(0, 1),)), rounds)


@pytest.mark.parametrize("rounds, said", [
    ([], "rank 0 ends with a wrong chunk 0: lost microbatch 1; never written"),
    ([Round(), Round((Transfer(1, 0, 0, 2),))], "chunk 0: lost microbatch 0; last written in round 1"),
    ([Round((Transfer(1, 0, 0, 2, origin=1),))],
     "round 0: rank 1 reads slot 1, chunk 0, which nothing has written yet"),
    ([Round(), Round((Transfer(1, 0, 1, 2, target=1),), (Sum(0, 0, 1, 1, 2), Sum(0, 0, 1, 1, 2)))],
     "round 1: rank 0 adds slot 1 to slot 0 in chunk 1, and counts more than once: microbatch 1"),
    ([Round((Transfer(1, 0, 0, 2, target=1), Transfer(1, 0, 1, 2, target=1)))],
     "round 0: two transfers write slot 1, chunk 1 of rank 0"),
    ([Round((Transfer(1, 0, 0, 1), Transfer(0, 1, 0, 1)))], "slot 0, chunk 0 while it is being written"),
    ([Round((Transfer(1, 1, 0, 1, target=1),))], "rank 1 sends chunks [0, 1) to itself"),
    ([Round((Transfer(1, 2, 0, 1),))], "there is no such rank in Transfer(source=1, destination=2"),
    ([Round((Transfer(1, 0, 1, 3),))], "there are no such chunks in Transfer(source=1"),
    ([Round((Transfer(1, 0, 1, 1),))], "there are no such chunks"),
])
def test_the_complaint_names_chunk_rank_and_round(rounds, said):
    with pytest.raises(ScheduleError) as caught:
        prove(two_ranks(*rounds))
    assert said in str(caught.value) and str(caught.value).startswith("toy: ")
    assert complaint(two_ranks(*rounds)) == str(caught.value) and complaint(make_schedule("ring", 2, 2)) == ""


def test_a_proof_is_made_once_and_not_handed_on_to_copies():
    schedule = make_schedule("ring", 5, 5)
    assert prove(schedule) is prove(schedule)
    with pytest.raises(ScheduleError, match="lost"):
        prove(replace(schedule, rounds=schedule.rounds[:-1]))
    for _ in range(2):
        with pytest.raises(ScheduleError):
            prove(two_ranks())
