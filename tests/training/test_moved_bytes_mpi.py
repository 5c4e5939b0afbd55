"""What a partition search sends between two steps is in metrics.jsonl, and equals its formula (docs/design.md, I2)."""

from collections import Counter

import pytest
from searching import SEARCH, STEPS, WALK
from test_repartition_mpi import moved_bytes
from toys import WORKS

from kernels.update import OPTIMIZERS
from refimpl.plan.make import with_partitions
from refimpl.training.planning import partition_trials
from refimpl.training.run.directory import read_metrics

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
ARRAYS = 1 + len(OPTIMIZERS["adam"].state)


def expected(plans, opened_from, ended):
    """Return, for each step, (direction, phase, variable, kind) -> bytes by rank; plans: of the steps.

    opened_from: the plan before the search's first move, in the first step's record.  ended: samples are whole by then.
    """
    variables, ranks = WORKS["toy"][0]().variables, plans[0].ranks
    found = []
    for step, plan in enumerate(plans):
        count = Counter()
        moves = ([(opened_from, plan)] if step == 0 else []) + ([(plan, plans[step + 1])] if step in ended else [])
        for old, new in moves:
            for rank in range(ranks):
                for key, (sent, received) in moved_bytes(old, new, variables, ARRAYS, rank).items():
                    count.update({("bytes_sent", *key, rank): sent, ("bytes_received", *key, rank): received})
        for rank in range(ranks):
            for direction in ("bytes_sent", "bytes_received"):
                count[direction, "repartition", "", "control", rank] = len(moves) * (ranks - 1)
                count[direction, "search", "", "control", rank] = (
                    (step in ended) * 8 * SEARCH["search_sample"] * (ranks - 1))
        found.append(+count)
    return found


def recorded(record):
    """Return the same of a line of metrics.jsonl: what was sent by a search."""
    return +Counter({(direction, phase, variable, kind, rank): bytes_
                     for direction in ("bytes_sent", "bytes_received") for phase in ("search", "repartition")
                     for variable, kinds in record[direction][phase].items()
                     for kind, by_rank in kinds.items() for rank, bytes_ in enumerate(by_rank)})


def summed(records):
    """Return phase -> bytes that rank 0 sent, of lines of metrics.jsonl."""
    return +Counter({phase: sum(by_rank[0] for r in records for kinds in r["bytes_sent"][phase].values()
                                for by_rank in kinds.values()) for phase in records[0]["bytes_sent"]})


@pytest.mark.parametrize("options", [{}, dict(overlap=True), dict(hot_rows=5)], ids=str)
@pytest.mark.thorough("overlap")
def test_each_record_has_the_bytes_that_moved_after_its_step(searching, options):
    result = searching.run(**options)
    if searching.comm.rank == 0:
        records = read_metrics(searching.path / "run")
        ended = {STEPS * (i + 1) - 1 for i in range(len(WALK))}
        wanted = expected(searching.plans, searching.plans[0], ended)
        assert list(map(recorded, records)) == wanted
        assert summed(records) == +Counter(result.bytes)
        assert searching.comm.size == 1 or sum(map(bool, wanted)) == 1 + len(WALK)


def test_what_moved_before_a_resumed_run_is_in_its_first_record(searching):
    stop = 2 * STEPS + 1
    searching.run(stop=stop)
    result = searching.run(resume=True)
    if searching.comm.rank == 0:
        records = read_metrics(searching.path / "run")[stop:]
        assert searching.tried[0] == (WALK[2], STEPS)
        start = with_partitions(searching.plans[0], WORKS["toy"][0]().variables, WALK[0])
        ended = {STEPS * (i + 1) - 1 for i in range(len(WALK) - 2)}
        assert list(map(recorded, records)) == expected(searching.plans, start, ended)
        assert summed(records) == +Counter(result.bytes)
        assert searching.comm.size == 1 or summed(records)["repartition"] > 0


def test_a_search_that_sent_more_than_its_formula_would_be_seen(searching, monkeypatch):
    """The check above fails if a move goes another way than straight from owner to owner."""
    right = partition_trials.repartition

    def in_two_moves(parameters, plan):
        right(parameters, with_partitions(plan, WORKS["toy"][0]().variables, 50))
        return right(parameters, plan)

    monkeypatch.setattr(partition_trials, "repartition", in_two_moves)
    result = searching.run()
    if searching.comm.rank == 0 and searching.comm.size > 1:
        records = read_metrics(searching.path / "run")
        ended = {STEPS * (i + 1) - 1 for i in range(len(WALK))}
        assert list(map(recorded, records)) != expected(searching.plans, searching.plans[0], ended)
        assert summed(records) == +Counter(result.bytes)
