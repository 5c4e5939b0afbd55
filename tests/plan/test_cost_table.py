"""Every cell of plain.strategies.cost_table: counted message by message; the exact bytes of plans (plan.cost) are held to it."""

from fractions import Fraction
from itertools import product

import pytest
from constructed import ROW, SETTINGS, A, Q, alphas, touched

from models import Variable
from refimpl.collectives.choose import make_schedule
from refimpl.plain.strategies.cost_table import (
    Setting, Sparse, dense_allreduce, dense_server_at_owner, dense_server_spread, sparse_allgather, sparse_as_dense,
    sparse_server_at_owner, sparse_server_spread,
)
from refimpl.plan import make_plan, predict_step
from refimpl.plan.cost import predict_crossing
from refimpl.transport.machines import in_blocks, machine_of


def tree(setting, owner, weight, weight_machine):
    """Yield (rank, rank, weight): who deals with whom over a variable of ``owner``, as the server does it."""
    machines = in_blocks(setting.ranks, setting.workers)
    home = machine_of(machines, owner)
    for machine, ranks in enumerate(machines):
        if machine == home or not setting.local_aggregation:
            yield from ((rank, owner, weight) for rank in ranks if rank != owner)
        else:
            aggregator = ranks[machines[home].index(owner)]
            yield aggregator, owner, weight_machine
            yield from ((rank, aggregator, weight) for rank in ranks if rank != aggregator)


def counted(setting, owners, weight, weight_machine):
    """Return the bytes of each machine: a pull and a push on every edge between two, out at one, in at the other."""
    total = [0] * setting.machines
    for owner in owners:
        for one, other, w in tree(setting, owner, weight, weight_machine):
            if one // setting.workers != other // setting.workers:
                total[one // setting.workers] += 2 * w
                total[other // setting.workers] += 2 * w
    return total


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_server_cells_edge_by_edge(setting):
    w, size, m = 640, alphas(setting), 3 * setting.ranks
    rows, together = size.rows * size.alpha, size.rows * size.alpha_machine
    everyone = list(range(setting.ranks)) * 3
    assert dense_server_at_owner(w, setting) == max(counted(setting, [0], w, w))
    assert set(counted(setting, everyone, w, w)) == {dense_server_spread(w, setting, m)}
    for got, each in zip(sparse_server_at_owner(size, setting), (ROW, 8)):
        assert got == max(counted(setting, [0], rows * each, together * each))
    for got, each in zip(sparse_server_spread(size, setting, m), (ROW, 8)):
        assert set(counted(setting, everyone, rows * each, together * each)) == {got}  # no hot spot


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_allreduce_cells_are_what_the_schedules_send(setting):
    """Of 1 and of m variables of a size that all chunks divide: through the cards, and of each worker by itself."""
    machines, n, workers = in_blocks(setting.ranks, setting.workers), setting.ranks, setting.workers
    if setting.local_aggregation and workers > 1:
        schedule = make_schedule("hierarchical", n, n, machines=machines)
    else:
        schedule = make_schedule("direct", n, n)
    for variables in (1, 5):
        elements = schedule.chunks * 6 * variables
        bounds, by_rank, by_machine = schedule.bounds(elements), [0] * n, [0] * len(machines)
        for t in (t for step in schedule.rounds for t in step.transfers):
            size = 4 * (bounds[t.stop] - bounds[t.start])
            for end in (t.source, t.destination):
                by_rank[end] += size
                by_machine[end // workers] += size * (t.source // workers != t.destination // workers)
        w = 4 * schedule.chunks * 6
        assert set(by_rank) == {dense_allreduce(w, Setting(n), variables)}
        assert set(by_machine) == {dense_allreduce(w, setting, variables)}


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_allgather_cells_pair_by_pair(setting):
    size, n, g = alphas(setting), setting.ranks, setting.workers
    rows, pairs = A * n, sum((r < g) != (q < g) for r, q in product(range(n), range(n)))
    for variables in (1, 7):
        for got, each in zip(sparse_allgather(size, setting, variables), (ROW, 8)):
            assert got == variables * each * rows * pairs


def in_and_out(predicted):
    """Return {kind: bytes sent and received} of a rank or machine, what its ledgers will show; control left out."""
    total = dict.fromkeys(("dense", "rows", "indices", "control"), 0)
    for (_, _, kind), both in predicted.items():
        total[kind] += sum(both)
    return total


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_exact_bytes_at_one_owner_and_by_allreduce_are_the_tables(ranks):
    """Constructed touch sets, one microbatch a rank: predict_step, as the ledger, gives the table's numbers."""
    setting = Setting(ranks)
    size, rows = alphas(setting), Variable("rows", (ranks * Q, ROW // 4), sparse=True)
    needs = [touched(setting, rank) for rank in range(ranks)]

    def found(variables, architecture, **more):
        plan = make_plan(variables, architecture, ranks, ranks, machines=in_blocks(ranks, 1), **more)
        return in_and_out(predict_step(plan, variables, {"rows": needs}, {"rows": [[ids] for ids in needs]}, 0))

    at_owner = found([rows], "hybrid", partitions=1)
    assert (at_owner["rows"], at_owner["indices"]) == sparse_server_at_owner(size, setting)
    whole = found([rows], "allreduce", sparse_as_dense=True, allreduce="direct")
    assert whole["dense"] == sparse_as_dense(size, setting)
    for count in (1, 2 * ranks):
        variables = [Variable(f"v{i}", (ranks, 6)) for i in range(count)]
        summed = found(variables, "allreduce", allreduce="direct")
        assert summed["dense"] == dense_allreduce(variables[0].nbytes, setting, count)
    assert found(variables[:1], "ps")["dense"] == dense_server_at_owner(variables[0].nbytes, setting)


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_exact_bytes_that_cross_machines_are_the_tables(setting):
    """Several workers a machine, each rank a part of the rows and two of the dense variables."""
    machines, ranks = in_blocks(setting.ranks, setting.workers), setting.ranks
    more = {"machines": machines, "local_aggregation": setting.local_aggregation}
    size, rows = alphas(setting), Variable("rows", (ranks * Q, ROW // 4), sparse=True)
    needs = [touched(setting, rank) for rank in range(ranks)]
    dense = [Variable(f"v{i}", (ranks, 6)) for i in range(2 * ranks)]
    part = Sparse(Q, ROW, size.alpha, size.alpha_machine)
    touching = {"rows": needs}, {"rows": [[ids] for ids in needs]}
    served = make_plan([rows, *dense], "ps", ranks, ranks, partitions=ranks, **more)
    gathered = make_plan([rows], "allreduce", ranks, ranks, **more)
    for machine in range(setting.machines):
        found = in_and_out(predict_crossing(served, [rows, *dense], *touching, machine))
        assert (found["rows"], found["indices"]) == sparse_server_spread(part, setting, ranks)
        assert found["dense"] == dense_server_spread(dense[0].nbytes, setting, len(dense))
        found = in_and_out(predict_crossing(gathered, [rows], *touching, machine))
        assert (found["rows"], found["indices"]) == sparse_allgather(size, setting)


def test_the_papers_table():
    """One worker a machine: the table as the paper prints it; allgather over server is N / 2."""
    n, m, w, alpha = 8, 24, 1000, Fraction(1, 50)
    setting, size = Setting(n), Sparse(50, 20, alpha)
    assert dense_server_at_owner(w, setting) == 2 * w * (n - 1)
    assert dense_server_spread(w, setting, m) == Fraction(4 * w * m * (n - 1), n)
    assert dense_allreduce(w, setting) == Fraction(4 * w * (n - 1), n)
    assert dense_allreduce(w, setting, m) == Fraction(4 * w * m * (n - 1), n)
    assert sparse_server_at_owner(size, setting).values == 2 * alpha * w * (n - 1)
    assert sparse_server_spread(size, setting, m).values == 4 * alpha * w * m * Fraction(n - 1, n)
    assert sparse_allgather(size, setting).values == 2 * alpha * w * (n - 1)
    assert sparse_allgather(size, setting, m).values == 2 * alpha * w * m * (n - 1)
    gathered, served = (f(size, setting, m) for f in (sparse_allgather, sparse_server_spread))
    assert {a / b for a, b in zip(gathered, served)} == {Fraction(n, 2)}


def test_what_a_machine_touches_must_be_said():
    with pytest.raises(ValueError, match="2 workers share a machine: give alpha_machine"):
        sparse_server_at_owner(Sparse(10, 4, 0.5), Setting(2, 2))
