"""Every cell of the paper's table: counted message by message, and held against the exact bytes of cost.py."""

from fractions import Fraction
from itertools import product

import pytest
from constructed import ROW, SETTINGS, A, Q, alphas, touched

from models import Variable
from refimpl.collectives.choose import make_schedule
from refimpl.plan import make_plan, predict_step
from refimpl.plan.formulas import (
    Setting, Sparse, dense_allreduce, dense_server_at_owner, dense_server_spread, sparse_allgather, sparse_as_dense,
    sparse_server_at_owner, sparse_server_spread,
)
from refimpl.transport.machines import in_blocks, machine_of

def tree(setting, owner, weight, weight_machine):
    """Yield (rank, rank, weight): who deals with whom over a variable of ``owner``, as the server does it."""
    machines = in_blocks(setting.ranks, setting.workers)
    home = machine_of(machines, owner)
    for machine, ranks in enumerate(machines):
        if machine == home or not setting.local_aggregation:
            yield from ((rank, owner, weight) for rank in ranks if rank != owner)
        else:
            handler = ranks[machines[home].index(owner)]
            yield handler, owner, weight_machine
            yield from ((rank, handler, weight) for rank in ranks if rank != handler)


def counted(setting, level, owners, weight, weight_machine):
    """Return the bytes of each machine or worker: a pull and a push on every edge, in at one end, out at the other."""
    places = [rank // setting.workers if level == "machine" else rank for rank in range(setting.ranks)]
    total = [0] * setting.ranks
    for owner in owners:
        for one, other, w in tree(setting, owner, weight, weight_machine):
            if places[one] != places[other]:
                total[places[one]] += 2 * w
                total[places[other]] += 2 * w
    return total[:places[-1] + 1]


@pytest.mark.parametrize("level", ["machine", "worker"])
@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_server_cells_edge_by_edge(setting, level):
    w, size, m = 640, alphas(setting), 3 * setting.ranks
    rows, together = size.rows * size.alpha, size.rows * size.alpha_machine
    assert dense_server_at_owner(w, setting, level) == max(counted(setting, level, [0], w, w))
    spread = counted(setting, level, list(range(setting.ranks)) * 3, w, w)
    assert sum(spread) == dense_server_spread(w, setting, m, level) * len(spread)
    for got, each in zip(sparse_server_at_owner(size, setting, level), (ROW, 8)):
        assert got == max(counted(setting, level, [0], rows * each, together * each))
    for got, each in zip(sparse_server_spread(size, setting, m, level), (ROW, 8)):
        spread = counted(setting, level, list(range(setting.ranks)) * 3, rows * each, together * each)
        assert got * len(spread) == sum(spread)
        assert level == "worker" or set(spread) == {got}  # no hot spot


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_allreduce_cells_are_what_the_schedules_send(setting):
    """Through the cards, and of each worker, of 1 and of m variables of a size that all chunks divide."""
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
        assert set(by_rank) == {dense_allreduce(w, setting, variables, "worker")}
        assert set(by_machine) == {dense_allreduce(w, setting, variables)}


@pytest.mark.parametrize("setting", SETTINGS, ids=str)
def test_allgather_cells_pair_by_pair(setting):
    size, n, g = alphas(setting), setting.ranks, setting.workers
    rows = A * setting.ranks
    for variables in (1, 7):
        for got, each in zip(sparse_allgather(size, setting, variables, "worker"), (ROW, 8)):
            assert got == variables * each * rows * 2 * (n - 1)
        for got, each in zip(sparse_allgather(size, setting, variables), (ROW, 8)):
            pairs = sum(1 for r, q in product(range(n), range(n)) if (r // g == 0) != (q // g == 0))
            assert got == variables * each * rows * pairs


def in_and_out(plan, variables, pulled, pushed, rank):
    """Return {kind: bytes sent and received} of a rank, what its ledger will show; control left out."""
    total: dict = {}
    for (_, _, kind), both in predict_step(plan, variables, pulled, pushed, rank).items():
        total[kind] = total.get(kind, 0) + sum(both)
    return {kind: total.get(kind, 0) for kind in ("dense", "rows", "indices")}


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_the_workers_cells_are_the_exact_bytes(ranks):
    """Constructed touch sets, one microbatch a rank: predict_step, as the ledger, gives the formulas' numbers."""
    setting = Setting(1, ranks, local_aggregation=False)
    size, rows = alphas(setting), Variable("rows", (ranks * Q, ROW // 4), sparse=True)
    needs = [touched(setting, rank) for rank in range(ranks)]
    sets = {"rows": needs}, {"rows": [[ids] for ids in needs]}
    machines = in_blocks(ranks, 1)
    spread = sparse_server_spread(Sparse(Q, ROW, size.alpha, 1), setting, ranks, "worker")
    for partitions, expected in ((1, sparse_server_at_owner(size, setting, "worker")), (ranks, spread)):
        plan = make_plan([rows], "hybrid", ranks, ranks, partitions=partitions, machines=machines)
        found = in_and_out(plan, [rows], *sets, 0)
        assert (found["rows"], found["indices"]) == expected
    found = in_and_out(make_plan([rows], "allreduce", ranks, ranks, machines=machines), [rows], *sets, 0)
    assert (found["rows"], found["indices"]) == sparse_allgather(size, setting, level="worker")
    plan = make_plan([rows], "allreduce", ranks, ranks, sparse_as_dense=True, machines=machines, allreduce="direct")
    assert in_and_out(plan, [rows], *sets, 0)["dense"] == sparse_as_dense(size, setting, level="worker")


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 5, 8])
def test_the_workers_dense_cells_are_the_exact_bytes(ranks):
    setting = Setting(1, ranks, local_aggregation=False)
    for count in (1, 2 * ranks):
        variables = [Variable(f"v{i}", (ranks, 6)) for i in range(count)]
        w = variables[0].nbytes
        plan = make_plan(variables, "ps", ranks, ranks, machines=in_blocks(ranks, 1))
        found = in_and_out(plan, variables, {}, {}, 0)["dense"]
        assert found == (dense_server_at_owner(w, setting, "worker") if count == 1
                         else dense_server_spread(w, setting, count, "worker"))
        plan = make_plan(variables, "allreduce", ranks, ranks, allreduce="direct")
        assert in_and_out(plan, variables, {}, {}, 0)["dense"] == dense_allreduce(w, setting, count, "worker")


def test_the_papers_table():
    """One worker a machine: the table as PAPER.md prints it; allgather over server is N / 2."""
    n, m, w, alpha = 8, 24, 1000, Fraction(1, 50)
    setting, size = Setting(n), Sparse(50, 20, alpha)
    for level in ("machine", "worker"):
        assert dense_server_at_owner(w, setting, level) == 2 * w * (n - 1)
        assert dense_server_spread(w, setting, m, level) == Fraction(4 * w * m * (n - 1), n)
        assert dense_allreduce(w, setting, 1, level) == Fraction(4 * w * (n - 1), n)
        assert dense_allreduce(w, setting, m, level) == Fraction(4 * w * m * (n - 1), n)
        assert sparse_server_at_owner(size, setting, level).values == 2 * alpha * w * (n - 1)
        assert sparse_server_spread(size, setting, m, level).values == 4 * alpha * w * m * Fraction(n - 1, n)
        assert sparse_allgather(size, setting, 1, level).values == 2 * alpha * w * (n - 1)
        assert sparse_allgather(size, setting, m, level).values == 2 * alpha * w * m * (n - 1)
        gathered, served = (f(size, setting, m, level) for f in (sparse_allgather, sparse_server_spread))
        assert {a / b for a, b in zip(gathered, served)} == {Fraction(n, 2)}


def test_refusals():
    with pytest.raises(ValueError, match="no level 'rack'; there are machine, worker"):
        dense_server_at_owner(1, Setting(2), "rack")
    with pytest.raises(ValueError, match="2 workers a machine: say alpha_machine"):
        sparse_server_at_owner(Sparse(10, 4, 0.5), Setting(2, 2))
