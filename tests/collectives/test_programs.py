"""Ranks with programs of their own: what would hang over MPI is refused, with who waits for whom."""

import pytest

from refimpl.collectives import ALGORITHMS, HALVES, Round, ScheduleError, Transfer, check_programs, make_schedule
from refimpl.collectives.schedule import KINDS
from refimpl.transport.machines import in_blocks


def exchange(*transfers):
    return Round(tuple(transfers))


TO_1, TO_0 = Transfer(0, 1, 0, 1), Transfer(1, 0, 0, 1)


def test_programs_leave_out_rounds_without_the_rank():
    schedule = make_schedule("binomial-tree", 4, 4)
    assert [len(program) for program in schedule.programs()] == [4, 2, 4, 2]
    check_programs(schedule.programs())
    check_programs([])


def test_both_wait_for_the_other_first():
    check_programs([(exchange(TO_1, TO_0),), (exchange(TO_0, TO_1),)])
    with pytest.raises(ScheduleError) as caught:  # with buffers it may run; MPI promises none
        check_programs([(exchange(TO_1), exchange(TO_0)), (exchange(TO_0), exchange(TO_1))], "swap")
    assert str(caught.value) == ("swap: deadlock: rank 0 in its round 0 sends chunks [0, 1) to rank 1; "
                                 "rank 1 in its round 0 sends chunks [0, 1) to rank 0")


def test_a_receive_that_nobody_sends():
    with pytest.raises(ScheduleError, match=r"deadlock: rank 1 in its round 1 waits for chunks \[0, 1\) of rank 0$"):
        check_programs([(exchange(TO_1),), (exchange(TO_1), exchange(TO_1))])


def test_chunks_that_differ():
    with pytest.raises(ScheduleError, match=r"rank 0 sends chunks \[0, 2\), rank 1 receives chunks \[0, 1\)"):
        check_programs([(exchange(Transfer(0, 1, 0, 2)),), (exchange(TO_1),)])
    with pytest.raises(ScheduleError, match=r"rank 0 sends chunks \[1, 2\), rank 1 receives chunks \[0, 1\)"):
        check_programs([(exchange(Transfer(0, 1, 1, 2)),), (exchange(TO_1),)])


def schedules(ranks):
    """Yield every algorithm and half for a number of ranks."""
    for name in ALGORITHMS:
        machines = in_blocks(ranks, 2) if name == "hierarchical" else None
        for kind in KINDS if name in HALVES else ("allreduce",):
            yield make_schedule(name, ranks, ranks, kind, machines)


@pytest.mark.parametrize("schedule", list(schedules(4)), ids=lambda schedule: f"{schedule.name}-{schedule.kind}")
def test_one_rank_that_leaves_a_transfer_out_or_names_a_wrong_peer(schedule):
    ranks, programs = 4, schedule.programs()
    check_programs(programs)
    for rank, program in enumerate(programs):
        for number, step in enumerate(program):
            for i, t in enumerate(step.transfers):
                other = next(r for r in range(ranks) if r not in (t.source, t.destination))
                wrong = t._replace(destination=other) if t.source == rank else t._replace(source=other)
                for planted in ((), (wrong,), (t, t)):
                    transfers = step.transfers[:i] + planted + step.transfers[i + 1:]
                    faulty = program[:number] + (exchange(*transfers),) + program[number + 1:]
                    with pytest.raises(ScheduleError, match=r"deadlock: rank \d in its round \d .* chunks|receives"):
                        check_programs([*programs[:rank], faulty, *programs[rank + 1:]])


def test_one_rank_that_swaps_two_rounds():
    for schedule in schedules(4):
        programs = schedule.programs()
        for rank, program in enumerate(programs):
            for number, (first, second) in enumerate(zip(program, program[1:])):
                if not links(first) & links(second):
                    continue  # with other peers, or the other way: then it is their order that matters, or does not
                swapped = program[:number] + (second, first) + program[number + 2:]
                with pytest.raises(ScheduleError, match="deadlock: rank|receives chunks"):
                    check_programs([*programs[:rank], swapped, *programs[rank + 1:]])


def links(step):
    return {(t.source, t.destination) for t in step.transfers}
