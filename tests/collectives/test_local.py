"""In one process, with zero tolerance: provenance, exact sums, the tree's bits, odd sizes, every dtype."""

from itertools import cycle

import numpy as np
import pytest

from refimpl.collectives import (
    ALGORITHMS, Round, ScheduleError, Transfer, make_schedule, prove, run_local, schedule_of, watch_local,
)
from refimpl.collectives.links import named_links
from refimpl.gradients import fold
from refimpl.transport.machines import in_blocks, machines_of

DTYPES = ("float16", "float32", "float64", "int32", "int64")
SIZES = (0, 1, 3, 33)
MACHINES = {n: (in_blocks(n, 1), in_blocks(n, 3), in_blocks(n, n), machines_of([r % 2 for r in range(n)]))
            for n in range(1, 9)}


def schedules(name, kind="allreduce", ranks=range(1, 9), each=(1, 2)):
    for n in ranks:
        for leaves in {n * e for e in each} | ({n + n // 2} if name != "halving-doubling" and len(each) > 1 else set()):
            if name == "halving-doubling" and n & (n - 1):
                continue
            for machines in MACHINES[n] if name == "hierarchical" else (None,):
                yield make_schedule(name, n, leaves, kind, machines)


def inputs_with(schedule, value_of):
    """Return each rank's slots: value_of(i) for the i-th of all inputs, in order of rank and slot."""
    number = iter(range(sum(map(len, schedule.inputs))))
    return [[value_of(next(number)) for _ in nodes] for nodes in schedule.inputs]


@pytest.mark.parametrize("name", ALGORITHMS)
def test_exact_sums_in_every_dtype_in_place_or_not(name):
    random = np.random.default_rng(0)
    for schedule, dtype in zip(schedules(name), cycle(DTYPES)):
        for size in SIZES:
            # exact: |sum| <= 1600
            arrays = inputs_with(schedule, lambda i: random.integers(-100, 101, size).astype(dtype))
            given = [[a.copy() for a in own] for own in arrays]
            exact = sum(a.astype(np.int64) for own in arrays for a in own)
            for in_place in (False, True):
                results = run_local(schedule, arrays, in_place=in_place)
                assert all(result.dtype == dtype and (result == exact).all() for result in results)
                assert all((result is own[0]) == in_place for result, own in zip(results, arrays))
                assert in_place or [[a.tobytes() for a in own] for own in arrays] == [
                    [a.tobytes() for a in own] for own in given]


TREES = [("star-2,2,1", 8), ("star-2,2,1", 2), ("dgx-1p", 13), ("levels-2x2x4x1", 7), ("path-3", 5)]
"""Networks for canonical trees, and microbatches."""


@pytest.mark.parametrize("name", [*ALGORITHMS, "canonical-trees"])
def test_canonical_means_the_trees_bits_and_all_ranks_have_the_same(name):
    random = np.random.default_rng(1)
    differ = False
    made = schedules(name) if name in ALGORITHMS else (
        make_schedule(f"{name}:{links}", named_links(links).ranks, leaves) for links, leaves in TREES)
    for schedule in made:
        values = inputs_with(schedule, lambda i: random.standard_normal(201).astype(np.float32))
        parts = [pair for nodes, own in zip(schedule.inputs, values) for pair in zip(nodes, own)]
        tree = fold(parts, lambda left, right: left + right)
        slots = [[a.copy() for a in own] or [np.zeros(201, np.float32)] for own in values]
        results = {r.tobytes() for r in run_local(schedule, slots)}
        assert len(results) == 1
        if prove(schedule).canonical or name == "canonical-trees":
            assert results == {tree.tobytes()}
        else:
            differ = differ or results != {tree.tobytes()}
    # what is not canonical does show in the bits
    assert differ or name in ("direct", "halving-doubling", "hierarchical", "canonical-trees")


def test_views_are_summed_in_place_and_ranks_without_input_are_told():
    whole = np.arange(12.0).reshape(3, 4)
    run_local(make_schedule("ring", 3, 3), list(whole))
    assert (whole == [12, 15, 18, 21]).all()
    mine = [np.arange(5) if nodes else np.full(5, -1) for nodes in make_schedule("direct", 3, 1).inputs]
    assert all((r == np.arange(5)).all() for r in run_local(make_schedule("direct", 3, 1), mine))


def test_what_does_not_fit_is_refused():
    schedule = make_schedule("ring", 2, 2)
    with pytest.raises(ValueError, match="is for 2 ranks, not 3"):
        run_local(schedule, [np.zeros(3)] * 3)
    with pytest.raises(ValueError, match="wants 1 inputs on rank 1, not 2"):
        run_local(schedule, [np.zeros(3), [np.zeros(3)] * 2])
    for other in (np.zeros(4), np.zeros(3, np.float32)):
        with pytest.raises(ValueError, match="all of one length and dtype"):
            run_local(schedule, [np.zeros(3), other])
    with pytest.raises(ValueError, match="one-dimensional"):
        run_local(schedule, [np.zeros((3, 1))] * 2)


def test_watched_round_by_round():
    arrays = [np.arange(4) + 10 * rank for rank in range(4)]
    schedule = make_schedule("ring", 4, 4)
    states = watch_local(schedule, arrays)
    assert len(states) == len(schedule.rounds) + 1
    np.testing.assert_array_equal(states[0], arrays)
    np.testing.assert_array_equal(states[1][1], [10 + 0, 11, 12, 13])  # chunk 0 of rank 0 was added
    np.testing.assert_array_equal(states[-1], run_local(schedule, arrays))


def test_a_schedule_of_ones_own_is_proved_like_any_other():
    ring = make_schedule("ring", 3, 3)
    own = schedule_of(iter(ring.rounds), 3, 3, "mine")
    assert (own.name, own.inputs, own.rounds) == ("mine", ring.inputs, ring.rounds) and prove(own) == prove(ring)
    with pytest.raises(ScheduleError, match="own: rank 0 ends with a wrong chunk 0"):
        prove(schedule_of([Round((Transfer(0, 1, 0, 1),))], 2, 1))
