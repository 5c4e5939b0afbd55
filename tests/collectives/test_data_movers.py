"""Allgatherv and all-to-all: proved, run, and held equal to the cost formulas of row gradients and of the server."""

import numpy as np
import pytest

from models import Variable
from refimpl.collectives import check_programs, prove, run_local
from refimpl.collectives.all_to_all import ALL_TO_ALLS, all_to_all
from refimpl.collectives.allgatherv import ALLGATHERVS, allgatherv
from refimpl.collectives.draw import draw_text
from refimpl.plan.bytes_between import allgather_rows, pull_rows, push_rows
from refimpl.server.groups import Groups
from refimpl.server.partition import Partitioning

NUMBERS = range(1, 34)
COLUMNS = 5


def table(ranks, seed=0):
    return np.random.default_rng((ranks, seed)).integers(0, 50, (ranks, ranks)) * (np.arange(ranks) % 3 > 0)


EACH = 100  # rows of an owner


def rows_for(counts):
    """Return, for each rank, rows of which counts[r, o] are owner o's."""
    return [np.concatenate([o * EACH + np.arange(n) for o, n in enumerate(row)]) for row in counts]


@pytest.mark.parametrize("name", ALLGATHERVS)
def test_allgatherv_for_any_number(name):
    for ranks in NUMBERS:
        counts = table(ranks)[0]
        schedule = allgatherv(counts, name)
        proof, total = prove(schedule), int(counts.sum())
        check_programs(schedule.programs())
        assert proof.chunks_received == tuple(total - k for k in counts)  # each element once
        assert proof.canonical and max(proof.chunks_sent) >= proof.bound
        assert proof.rounds == {"direct": min(ranks - 1, 1), "ring": ranks - 1, "bruck": (ranks - 1).bit_length()}[name]
        ring = [total - counts[(r + 1) % ranks] if ranks > 1 else 0 for r in range(ranks)]
        assert name != "ring" or list(proof.chunks_sent) == ring
        vector = np.arange(total)
        bounds = schedule.bounds(total)
        own = [np.where((vector >= bounds[r]) & (vector < bounds[r + 1]), vector, -1) for r in range(ranks)]
        assert all((result == vector).all() for result in run_local(schedule, own))


@pytest.mark.parametrize("name", ALL_TO_ALLS)
def test_all_to_all_for_any_number(name):
    for ranks in NUMBERS:
        counts = table(ranks)
        schedule = all_to_all(counts, name)
        proof = prove(schedule)
        check_programs(schedule.programs())
        off_diagonal = counts * (1 - np.eye(ranks, dtype=int))
        assert proof.chunks_sent == tuple(off_diagonal.sum(1)) and proof.chunks_received == tuple(off_diagonal.sum(0))
        assert proof.bound == off_diagonal.sum(1).max() and proof.ports == (0 if ranks == 1 else
                                                                            1 if name == "pairwise" else ranks - 1)
        if ranks <= 8:
            source, destination = (np.repeat(index.ravel(), counts.ravel()) for index in np.indices(counts.shape))
            vector = np.arange(int(counts.sum()))
            results = run_local(schedule, [np.where(source == r, vector, -1) for r in range(ranks)])
            for rank, result in enumerate(results):
                assert (result[destination == rank] == vector[destination == rank]).all()


@pytest.mark.parametrize("ranks", [1, 2, 3, 5, 8, 13])
def test_rows_cost_what_these_schedules_send(ranks):
    variable, groups = Variable("embedding", (EACH * ranks, COLUMNS), sparse=True), Groups.alone(ranks)
    parts = Partitioning(EACH * ranks, tuple(range(ranks)), ranks, "contiguous")
    for seed in range(5):
        counts = table(ranks, seed)
        gather, there, back = allgatherv(counts[0]), all_to_all(counts), all_to_all(counts.T)
        pushed = [[ids] for ids in rows_for(counts)]  # one node of the tree a rank
        cost = {**allgather_rows(variable, [[np.arange(k)] for k in counts[0]], 1),
                **pull_rows(variable, parts, groups, rows_for(counts)),
                **push_rows(variable, parts, groups, pushed, ranks)}
        for phase, indices, rows in (("allgather", gather, gather), ("pull", there, back), ("push", there, there)):
            for kind, schedule, width in (("indices", indices, 8), ("rows", rows, 4 * COLUMNS)):
                moved = cost[phase, "embedding", kind]  # bytes by (sender, receiver)
                assert (moved.sum(1) == width * np.array(schedule.elements_sent(sum(schedule.sizes)))).all()
                assert (moved.sum(0) == width * np.array(prove(schedule).chunks_received)).all()


def test_pictures():
    assert draw_text(allgatherv([1, 2, 3, 4, 5], "bruck")).splitlines()[1:4] == [
        " 0  0>r4    1>r0    2>r1    3>r2    4>r3",
        " 1  0-1>r3  1-2>r4  2-3>r0  3-4>r1  4>r2",
        "                                    0>r2"]
    assert draw_text(all_to_all([[1, 2], [3, 4]])).splitlines()[1] == " 0  1>r1    2>r0"


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="no allgatherv algorithm 'tree'; there are direct, ring, bruck"):
        allgatherv([1], "tree")
    with pytest.raises(ValueError, match="no all-to-all algorithm 'ring'; there are direct, pairwise"):
        all_to_all([[1]], "ring")
    for counts in ([], [1, -1]):
        with pytest.raises(ValueError, match="elements of each rank, none negative"):
            allgatherv(counts)
    for counts in ([], [[1, 2]], [[-1]], [1]):
        with pytest.raises(ValueError, match="table of counts, none negative"):
            all_to_all(counts)
    with pytest.raises(ValueError, match="direct allgatherv are 3 elements, not 4"):
        allgatherv([1, 2]).bounds(4)
