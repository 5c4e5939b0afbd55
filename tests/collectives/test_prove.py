"""Schedules are proved on symbols; every planted fault is caught."""

from dataclasses import replace

import pytest

from refimpl.collectives import ALGORITHMS, Round, ScheduleError, make_schedule, prove


@pytest.mark.parametrize("ranks", range(1, 18))
def test_direct_is_canonical_for_any_numbers(ranks):
    for leaves in {1, ranks, ranks + 3, 2 * ranks, 16}:
        schedule = make_schedule("direct", ranks, leaves)
        assert prove(schedule).canonical


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16])
def test_halving_doubling_is_canonical_and_meets_the_bound(ranks):
    for each in (1, 2, 4):
        proof = prove(make_schedule("halving-doubling", ranks, ranks * each))
        assert proof.canonical and max(proof.chunks_sent) == proof.bound
        assert proof.rounds == 2 * (ranks.bit_length() - 1)


@pytest.mark.parametrize("ranks", range(1, 18))
def test_ring_is_correct_meets_the_bound_and_is_not_canonical(ranks):
    proof = prove(make_schedule("ring", ranks, ranks))
    assert max(proof.chunks_sent) == proof.bound == 2 * (ranks - 1) and proof.rounds == 2 * (ranks - 1)
    assert proof.canonical == (ranks <= 2)


def test_auto_chooses_a_canonical_schedule():
    assert make_schedule("auto", 4, 8).name == "halving-doubling"
    assert {make_schedule("auto", n, 8).name for n in (3, 5, 6, 7)} == {"direct"}


@pytest.mark.parametrize("ranks, leaves", [(3, 3), (4, 12), (6, 6)])
def test_halving_doubling_refuses_what_it_cannot_do_canonically(ranks, leaves):
    with pytest.raises(ValueError, match="--allreduce direct"):
        make_schedule("halving-doubling", ranks, leaves)


def test_unknown_algorithm():
    with pytest.raises(ValueError, match="there are auto, direct"):
        make_schedule("nonsense", 2, 2)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_planted_faults_are_caught(name):
    schedule = make_schedule(name, 4, 8)
    for number, step in enumerate(schedule.rounds):
        for position, transfer in enumerate(step.transfers):
            others = step.transfers[:position] + step.transfers[position + 1:]
            wrong_peer = replace(transfer, destination=(transfer.destination + 1) % 4)
            late_chunk = replace(transfer, start=(transfer.start + 1) % 4, stop=(transfer.start + 1) % 4 + 1)
            for transfers in (others, step.transfers + (transfer,), others + (wrong_peer,), others + (late_chunk,)):
                rounds = list(schedule.rounds)
                rounds[number] = Round(transfers, step.sums)
                with pytest.raises(ScheduleError):
                    prove(replace(schedule, rounds=tuple(rounds)))
        for position in range(len(step.sums)):
            once = step.sums[position:position + 1]
            for planted in ((), once + once):
                sums = step.sums[:position] + planted + step.sums[position + 1:]
                rounds = list(schedule.rounds)
                rounds[number] = Round(step.transfers, sums)
                with pytest.raises(ScheduleError):
                    prove(replace(schedule, rounds=tuple(rounds)))
    for number in range(len(schedule.rounds) - 1):
        rounds = list(schedule.rounds)
        rounds[number], rounds[number + 1] = rounds[number + 1], rounds[number]
        with pytest.raises(ScheduleError):
            prove(replace(schedule, rounds=tuple(rounds)))
