"""Plain schedules against the fast ones: the same bytes; and what ``prove`` refuses."""

import pytest

from refimpl.collectives import make_schedule, prove
from refimpl.plain.collectives import schedule as plain
from refimpl.plain.adding.tree import add_up

CASES = [(plain.ring, n, "ring") for n in range(1, 13)]
CASES += [(plain.halving_doubling, n, "halving-doubling") for n in (1, 2, 4, 8, 16)]


@pytest.mark.parametrize("algorithm, ranks, name", CASES)
def test_rounds_and_chunks_are_the_fast_ones(algorithm, ranks, name):
    rounds, fast = algorithm(ranks), prove(make_schedule(name, ranks, ranks))
    sent = plain.prove(rounds, ranks)
    assert fast.chunks == ranks and len(rounds) == fast.rounds
    assert tuple(sent[rank] for rank in range(ranks)) == fast.chunks_sent
    in_tree_order = add_up(0, ranks, {(v, v + 1): str(v) for v in range(ranks)},
                           lambda *two: f"({'+'.join(sorted(two))})")
    assert (set(plain.orders(rounds, ranks)) == {in_tree_order}) == fast.canonical


def broken(change):
    rounds = plain.ring(4)
    change(rounds)
    return rounds


@pytest.mark.parametrize("change", [
    lambda rounds: rounds[1].pop(), lambda rounds: rounds.pop(), lambda rounds: rounds.append(rounds[0]),
    lambda rounds: rounds.__setitem__(5, [(a, b, c, True) for a, b, c, _ in rounds[5]]),
    lambda rounds: rounds.reverse(), lambda rounds: rounds[0].append((0, 2, 0, True)),
], ids=["lost message", "lost round", "round too many", "adds what it has", "backwards", "message twice"])
def test_a_broken_schedule_is_refused(change):
    with pytest.raises(ValueError, match=r"rank \d counted chunk \d of rank \d \d times"):
        plain.prove(broken(change), 4)


def test_halving_doubling_without_a_power_of_two_is_refused():
    with pytest.raises(ValueError):
        plain.prove(plain.halving_doubling(4), 5)
