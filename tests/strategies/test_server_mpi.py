"""The server's exchanges by themselves: what is pulled is what lies there, what is pushed arrives once, from all."""

import importlib

import numpy as np
import pytest
from mpi4py import MPI

from kernels import RowGradient, array_module, to_numpy
from models import Uniform, Variable
from refimpl.gradients import leaves_of
from refimpl.plan import Placement, Plan
from refimpl.server import Partitioning, rounds
from refimpl.strategies import ReduceScatter, ServedDense, ServedRows, blocks
from refimpl.strategies.blocks import assembled
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]

ROWS = 29
TABLES = [Variable("wide", (ROWS, 5), sparse=True, initial=Uniform(1.0), dtype="float64"),
          Variable("thin", (ROWS, 1), sparse=True, initial=Uniform(1.0), dtype="float64"),
          Variable("none", (0, 3), sparse=True, dtype="float64")]
DENSE = [Variable("a", (3, 4), initial=Uniform(1.0), dtype="float64"), Variable("empty", (0, 2), dtype="float64"),
         Variable("b", (7,), initial=Uniform(1.0), dtype="float64")]


MACHINES = {"alone": lambda n: in_blocks(n, 1), "pairs": lambda n: in_blocks(n, 2), "threes": lambda n: in_blocks(n, 3),
          "odd and even": lambda n: tuple(m for m in (tuple(range(0, n, 2)), tuple(range(1, n, 2))) if m)}
grouped = pytest.mark.parametrize("machines, on", [
    ("alone", "host"), ("pairs", "host"), ("odd and even", "host"), ("pairs", "staged"), ("odd and even", "nccl")])
"""on: where arrays lie, and how they travel: on the host, or on the stand-in's device, staged or by NCCL."""


ROUND = {"contiguous": 0, "interleaved": 450}
"""scheme -> rows of so many bytes make a round: each partition by itself; or several, more of one variable's than of
another's. Where neither is asked for, all of these small tables' partitions are one round."""


@pytest.fixture(autouse=True)
def _rounds(request, monkeypatch):
    scheme = getattr(request.node, "callspec", None) and request.node.callspec.params.get("scheme")
    if scheme:
        monkeypatch.setattr(rounds, "ROUND", ROUND[scheme])


def communicator_of(comm, machines, on):
    """Return (communicator, array module)."""
    communicator = Communicator(comm, machines)
    if on == "host":
        return communicator, np
    communicator.add_device(0, on)
    return communicator, importlib.import_module("cupy")


def made(placed, communicator, leaves, xp=np):
    """Return the exchange of (variable, strategy) pairs of one strategy."""
    plan = Plan("ps", communicator.size, leaves, "direct", tuple(Placement(v.name, s) for v, s in placed),
                communicator.machines)
    return type(placed[0][1]).exchange(placed, plan, communicator, 1, xp, True)


def served_rows(comm, partitions=3, scheme="contiguous", leaves=7, machines="alone", on="host"):
    parts = {v.name: Partitioning.round_robin(v.shape[0], partitions, comm.size, scheme) for v in TABLES}
    communicator, xp = communicator_of(comm, MACHINES[machines](comm.size), on)
    placed = [(v, ServedRows(parts[v.name].owners, scheme)) for v in TABLES]
    return made(placed, communicator, leaves, xp), parts


@grouped
@pytest.mark.parametrize("partitions, scheme", [(1, "contiguous"), (7, "interleaved"), (40, "contiguous")])
@pytest.mark.thorough("7-")
def test_pulled_rows_are_the_variables_rows(comm, cupy, partitions, scheme, machines, on):
    exchange, _ = served_rows(comm, partitions, scheme, machines=machines, on=on)
    rng = np.random.default_rng(comm.rank)
    for count in (0, 1, 11, ROWS):
        needs = {v.name: np.sort(rng.choice(v.shape[0], min(count, v.shape[0]), replace=False)) for v in TABLES}
        rows = exchange.pull(needs)
        some = exchange.pull({"thin": needs["thin"][1::2]})
        for v in TABLES:
            assert np.array_equal(to_numpy(rows[v.name]), v.initial_value(1)[needs[v.name]])
        assert list(some) == ["thin"] and np.array_equal(to_numpy(some["thin"]), to_numpy(rows["thin"])[1::2])


@pytest.mark.parametrize("leaves, scheme", [(1, "contiguous"), (7, "interleaved"), (8, "contiguous")])
@grouped
@pytest.mark.thorough("-7-")
def test_every_microbatch_is_counted_once_in_every_row(comm, cupy, leaves, scheme, machines, on):
    """Leaf v adds 4**v: the base-4 digits of a row's sum say which leaves had it. Which do is drawn at random."""
    exchange, parts = served_rows(comm, 9, scheme, leaves, machines, on)
    has = {v.name: np.random.default_rng(5).random((leaves, v.shape[0])) < 0.4 for v in TABLES}  # the same on all ranks
    has["wide"][0] = False  # an empty gradient
    for leaf in leaves_of(comm.rank, comm.size, leaves):
        if leaf == 5:
            exchange.add(leaf, None)
            continue
        gradients = {}
        for v in TABLES:
            ids = np.flatnonzero(has[v.name][leaf])
            xp = array_module(exchange.shards[v.name].values)
            gradients[v.name] = RowGradient(ids, xp.full((len(ids), v.shape[1]), 4.0**leaf))
        exchange.add(leaf, gradients)
    for name in has:
        has[name][5:6] = False
    pieces = exchange.push()
    mine = [sum(owner == comm.rank for owner in part.owners) for part in parts.values()]
    assert max(mine) <= len(pieces) <= sum(mine) if ROUND[scheme] == 0 else len(pieces) <= sum(mine)
    for v in TABLES:
        summed = [piece for piece in pieces if piece.shard is exchange.shards[v.name]]  # one a round
        own = parts[v.name].global_rows(comm.rank)
        expected = (has[v.name] * 4.0 ** np.arange(leaves)[:, None]).sum(axis=0)
        touched = [local for local, row in enumerate(own) if has[v.name][:, row].any()]
        assert [row for piece in summed for row in piece.ids] == touched
        for piece in summed:
            assert piece.counts and (to_numpy(piece.gradient) == expected[own[piece.ids]][:, None]).all()


@pytest.mark.mpi(min_size=8)
@grouped
def test_exchanges_on_five_to_eight_ranks(comm, cupy, machines, on):
    if on == "nccl":
        pytest.skip("the stand-in of NCCL connects all ranks of a job")
    for ranks in (5, 6, 7, 8):
        small = comm.Split(0 if comm.rank < ranks else MPI.UNDEFINED)
        if small != MPI.COMM_NULL:
            for partitions, scheme in ((1, "contiguous"), (11, "interleaved")):
                test_pulled_rows_are_the_variables_rows(small, cupy, partitions, scheme, machines, on)
            for leaves in (3, 11):
                test_every_microbatch_is_counted_once_in_every_row(small, cupy, leaves, "contiguous", machines, on)
                for kind in (ServedDense, ReduceScatter):
                    check_dense(small, kind, leaves, machines, on)
            small.Free()


def collected(exchange, variable, everyone):
    takers = range(exchange.comm.size) if everyone else [0]
    return assembled(exchange.blocks(variable.name, None, takers, "collect"), variable)


@pytest.fixture(params=[60, blocks.BLOCK])
def block(request, monkeypatch):
    """Blocks of so many bytes: a few rows, or all of them."""
    monkeypatch.setattr(blocks, "BLOCK", request.param)


@pytest.mark.parametrize("everyone", [False, True])
@pytest.mark.parametrize("scheme", ["contiguous", "interleaved"])
def test_tables_are_placed_and_collected(comm, scheme, everyone, block):
    exchange, _ = served_rows(comm, 4, scheme)
    for v in TABLES:
        target = np.arange(v.size, dtype=float).reshape(v.shape)
        exchange.place(v.name, None, lambda rows, target=target: target[rows.start:rows.stop:rows.step])
        whole = collected(exchange, v, everyone)
        assert np.array_equal(whole, target) if everyone or comm.rank == 0 else whole is None


def owned(comm, kind):
    """Return (strategy of each dense variable, name -> rows that this rank owns of it)."""
    if kind is ServedDense:
        owners = {"a": comm.size - 1, "empty": 0, "b": 0}
        return ([ServedDense((owners[v.name],)) for v in DENSE],
                {v.name: range(v.shape[0]) for v in DENSE if owners[v.name] == comm.rank})
    first, last = (19 * (comm.rank + i) / comm.size for i in (0, 1))  # of "a", 3 rows of 4 elements; then 7 of "b"
    rows = {"a": range(*(min(3, round(end / 4)) for end in (first, last))),
            "b": range(*(max(0, round(end - 12)) for end in (first, last)))}
    found = {name: some for name, some in rows.items() if some} | ({"empty": range(0)} if comm.rank == 0 else {})
    return [ReduceScatter()] * len(DENSE), found


@grouped
@pytest.mark.parametrize("leaves", [1, 5])
@pytest.mark.thorough("5")
def test_dense_variables_are_summed_by_their_owners(comm, cupy, leaves, machines, on, monkeypatch):
    monkeypatch.setattr(blocks, "BLOCK", 60)
    for kind in (ServedDense, ReduceScatter):
        check_dense(comm, kind, leaves, machines, on)


def check_dense(comm, kind, leaves, machines, on):
    """Two steps, an update of 1 in each; then other values are placed. Each rank looks at the rows that it owns."""
    communicator, xp = communicator_of(comm, MACHINES[machines](comm.size), on)
    strategies, rows = owned(comm, kind)
    exchange = made(list(zip(DENSE, strategies)), communicator, leaves, xp)
    for step in range(2):
        exchange.pull({})
        for v in DENSE:
            assert np.array_equal(to_numpy(exchange.dense()[v.name]), v.initial_value(1) + step)
        for leaf in leaves_of(comm.rank, comm.size, leaves):
            exchange.add(leaf, {v.name: xp.full(v.shape, 4.0**leaf) for v in DENSE} if leaf != 3 else None)
        expected = sum(4.0**leaf for leaf in range(leaves) if leaf != 3)
        summed = exchange.push()
        assert {s.shard.variable.name: len(s.gradient) for s in summed} == {name: len(r) for name, r in rows.items()}
        for piece in summed:
            assert (to_numpy(piece.gradient) == expected).all() and piece.gradient.shape == piece.shard.variable.shape
            piece.shard.values += 1  # an update: the next pull must show it everywhere
    for v in DENSE:
        whole = collected(exchange, v, True)
        assert np.array_equal(to_numpy(whole), v.initial_value(1) + 2)
        target = xp.arange(v.size, dtype="float64").reshape(v.shape)
        exchange.place(v.name, None, lambda rows, target=target: target[rows.start:rows.stop] if rows else target)
        whole = collected(exchange, v, False)
        assert np.array_equal(to_numpy(whole), to_numpy(target)) if comm.rank == 0 else whole is None


def test_pairs_of_ranks_that_exchange_nothing():
    """Every rank needs only what it owns: not a byte of rows or numbers moves."""
    communicator = Communicator.of(MPI.COMM_WORLD)
    parts = {v.name: Partitioning.round_robin(v.shape[0], communicator.size, communicator.size) for v in TABLES}
    exchange = made([(v, ServedRows(parts[v.name].owners)) for v in TABLES], communicator, communicator.size)
    own = {v.name: parts[v.name].global_rows(communicator.rank) for v in TABLES}
    exchange.pull(own)
    exchange.add(communicator.rank, {v.name: RowGradient(own[v.name], np.ones((len(own[v.name]), v.shape[1]))) for v in TABLES})
    assert all((s.gradient == 1).all() for s in exchange.push())
    assert communicator.ledger.total(kind="rows") == communicator.ledger.total(kind="indices") == 0
