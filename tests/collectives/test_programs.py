"""Ranks with programs of their own: what would hang over MPI is refused, with who waits for whom."""

import pytest

from refimpl.collectives import ALGORITHMS, Round, ScheduleError, Transfer, check_programs, make_schedule


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


def test_lengths_that_differ():
    with pytest.raises(ScheduleError, match=r"rank 0 sends chunks \[0, 2\), rank 1 receives chunks \[0, 1\)"):
        check_programs([(exchange(Transfer(0, 1, 0, 2)),), (exchange(TO_1),)])


@pytest.mark.parametrize("name", ALGORITHMS)
def test_one_rank_that_leaves_a_transfer_out_or_names_a_wrong_peer(name):
    ranks = 4
    machines = ((0, 1), (2, 3)) if name == "hierarchical" else None
    programs = make_schedule(name, ranks, ranks, machines=machines).programs()
    check_programs(programs)
    for rank, program in enumerate(programs):
        for number, step in enumerate(program):
            for i, t in enumerate(step.transfers):
                other = next(r for r in range(ranks) if r not in (t.source, t.destination))
                wrong = t._replace(destination=other) if t.source == rank else t._replace(source=other)
                for planted in ((), (wrong,), (t, t)):
                    transfers = step.transfers[:i] + planted + step.transfers[i + 1:]
                    faulty = program[:number] + (exchange(*transfers),) + program[number + 1:]
                    with pytest.raises(ScheduleError, match="deadlock|receives chunks"):
                        check_programs([*programs[:rank], faulty, *programs[rank + 1:]])
