"""The plain servers and their rivals: whose gradient arrives how often, and every byte against the fast plan's."""

from functools import partial

import numpy as np
import pytest

import refimpl.strategies  # noqa: F401: a plan finds them there
from kernels import RowGradient
from kernels.rows.definition import merge_rows
from models import Uniform, Variable
from refimpl.plain.adding.tree import form_nodes, microbatches_of, nodes_by_rank
from refimpl.plain.messages import Messages
from refimpl.plain.strategies.aggregation import LocalAggregation
from refimpl.plain.strategies.dense_server import DenseServer
from refimpl.plain.strategies.hot_rows import HotRows
from refimpl.plain.strategies.reduce_scatter import ReduceScatter
from refimpl.plain.strategies.replicas import GatheredRows, Replica
from refimpl.plain.strategies.server import Server
from refimpl.plan import make_plan
from refimpl.plan.cost import predict_step
from refimpl.strategies.hot_rows import with_hot_rows
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]
ROWS = Variable("rows", (24, 3), sparse=True, initial=Uniform(1.0))
DENSE = Variable("dense", (5, 2), initial=Uniform(1.0))


def touched(microbatches):
    """The rows of each microbatch: some that all touch, some of its own, none in the last of many."""
    rng = np.random.default_rng(microbatches)
    sets = [np.unique(np.append(rng.integers(0, 24, 5), 0)) for _ in range(microbatches)]
    return [*sets[:-1], sets[-1][:0]] if microbatches > 5 else sets


def gradient_nodes(ranks, rank, sets, value):
    """The nodes of a rank, each row of microbatch v being value(v): with 4**v the sum's digits tell who was counted."""
    start, stop = microbatches_of(rank, ranks, len(sets))
    leaves = [RowGradient(sets[v], np.full((len(sets[v]), 3), value(v), np.float32)) for v in range(start, stop)]
    return form_nodes(start, leaves, merge_rows)


def wanted(ranks, rank, sets):
    """The rows that a rank's microbatches touch."""
    start, stop = microbatches_of(rank, ranks, len(sets))
    return np.unique(np.concatenate([np.empty(0, np.int64), *sets[start:stop]]))


def predicted(comm, variable, architecture, sets, **options):
    """Return {(phase, kind): bytes sent} of this rank, as a fast plan has them."""
    crossing, hot = options.pop("crossing", False), options.pop("hot", 0)
    plan = make_plan([variable], architecture, comm.size, len(sets), scheme="interleaved", allreduce="direct", **options)
    plan = with_hot_rows(plan, {variable.name: hot}) if hot else plan
    pulled = {"rows": [wanted(comm.size, r, sets) for r in range(comm.size)]}
    pushed = {"rows": [[np.unique(np.concatenate(sets[start:stop])) for start, stop in nodes]
                       for nodes in nodes_by_rank(comm.size, len(sets))]}
    found = predict_step(plan, [variable], pulled, pushed, comm.rank, crossing=crossing)
    return {(phase, kind): sent for (phase, name, kind), (sent, _) in found.items() if name == variable.name and sent}


def counted(messages):
    """Return {(phase, kind): bytes sent}, as ``predicted``."""
    kinds = {"rows": "rows", "row numbers": "indices", "dense": "dense", "": "dense"}
    split = {phase: phase.partition(" ") for phase in messages.sent}
    return {(split[phase][0], kinds[split[phase][2]]): n for phase, n in messages.sent.items() if n}


def provenance(own, sets):
    """What the sums of these rows must be: row -> 4**v for each microbatch that touches it, summed, in each column."""
    counts = {int(row): sum(4.0**v for v, some in enumerate(sets) if row in some) for row in own}
    return {row: [count] * 3 for row, count in counts.items() if count}


def pull_and_push(comm, sets, wrap=lambda server: server, each=1, **options):
    """Pull and push by a plain server, whole or wrapped; check values and provenance; return it."""
    messages = Messages(comm, each)
    server = wrap(Server(messages, ROWS, 0, len(sets), **options))
    rows = wanted(comm.size, comm.rank, sets)
    assert server.pull(rows).tobytes() == ROWS.initial_value(0)[rows].tobytes()
    places, total = server.push(gradient_nodes(comm.size, comm.rank, sets, lambda v: 4.0**v))
    assert dict(zip(server.own[places].tolist(), total.tolist())) == provenance(server.own, sets)
    assert comm.allreduce(len(server.own)) == 24
    return server


@pytest.mark.ranks(3)
@pytest.mark.parametrize("microbatches, partitions", [(1, None), (3, 1), (4, 8), (7, None), (8, 12)])
def test_server(comm, microbatches, partitions):
    sets = touched(microbatches)
    server = pull_and_push(comm, sets, partitions=partitions)
    assert counted(server.messages) == predicted(comm, ROWS, "ps", sets, partitions=partitions or comm.size,
                                                 machines=in_blocks(comm.size, 1))
    assert server.whole(server.values).tobytes() == ROWS.initial_value(0).tobytes()


@pytest.mark.ranks(3)
@pytest.mark.parametrize("microbatches", [2, 7])
def test_gathered_rows(comm, microbatches):
    sets, messages = touched(microbatches), Messages(comm)
    table = GatheredRows(messages, ROWS, 0, microbatches)
    places, total = table.push(gradient_nodes(comm.size, comm.rank, sets, lambda v: 4.0**v))
    assert dict(zip(places.tolist(), total.tolist())) == provenance(range(24), sets)
    assert counted(messages) == predicted(comm, ROWS, "allreduce", sets, machines=in_blocks(comm.size, 1))


@pytest.mark.ranks(3)
@pytest.mark.parametrize("kind, architecture, options", [
    (DenseServer, "ps", {}), (Replica, "allreduce", {}), (ReduceScatter, "hybrid", {"shard_optimizer": True})])
@pytest.mark.parametrize("microbatches", [1, 7])
def test_dense(comm, kind, architecture, options, microbatches):
    messages = Messages(comm)
    strategy = kind(messages, DENSE, 0, microbatches)
    assert strategy.pull().tobytes() == DENSE.initial_value(0).tobytes()
    start, stop = microbatches_of(comm.rank, comm.size, microbatches)
    nodes = form_nodes(start, [np.full((5, 2), 4.0**v, np.float32) for v in range(start, stop)], np.add)
    places, total = strategy.push(nodes)
    assert places is None and total.shape == strategy.values.shape
    assert comm.allreduce(total.size) == 10 * (comm.size if kind is Replica else 1)
    assert set(total.ravel().tolist()) <= {sum(4.0**v for v in range(microbatches))}
    assert counted(messages) == predicted(comm, DENSE, architecture, touched(microbatches),
                                          machines=in_blocks(comm.size, 1), **options)


@pytest.mark.parametrize("microbatches, hot", [(1, 1), (6, 7), (8, 23)])
def test_hot_rows(comm, microbatches, hot):
    """The server's values and sums, to the bit, and the fast plan's bytes."""
    sets, messages = touched(microbatches), Messages(comm)
    table, rows = HotRows(messages, ROWS, 0, microbatches, hot), wanted(comm.size, comm.rank, sets)
    assert table.pull(rows).tobytes() == ROWS.initial_value(0)[rows].tobytes()
    nodes = gradient_nodes(comm.size, comm.rank, sets, lambda v: -0.0 if v == 1 else np.sqrt(2 + v))
    places, total = table.push(nodes)
    assert counted(messages) == predicted(comm, ROWS, "ps", sets, machines=in_blocks(comm.size, 1), hot=hot)
    served = Server(Messages(comm), ROWS, 0, microbatches)
    own = np.append(np.arange(hot), hot + table.server.own)[places]
    sums = {row: part.tobytes() for row, part in zip(own.tolist(), total)}
    for every in comm.allgather({int(served.own[place]): part.tobytes() for place, part in zip(*served.push(nodes))}):
        assert {row: part for row, part in every.items() if row < hot or row in sums}.items() <= sums.items()
    assert set(sums) <= set(np.unique(np.concatenate(sets)).tolist())


@pytest.mark.parametrize("microbatches, each", [(2, 1), (3, 2), (6, 3), (8, 2)])
def test_local_aggregation(comm, microbatches, each):
    """The same answer, and what crosses machines is the fast plan's, with aggregation and without."""
    sets = touched(microbatches)
    machines = in_blocks(comm.size, each)
    bare = pull_and_push(comm, sets, each=each)
    wrapped = pull_and_push(comm, sets, partial(LocalAggregation, each=each), each)
    for server, local in ((bare, False), (wrapped.server, True)):
        crossed = sum(predicted(comm, ROWS, "ps", sets, partitions=comm.size, machines=machines, crossing=True,
                                local_aggregation=local).values())
        assert sum(server.messages.sent.values()) == crossed
    nodes = gradient_nodes(comm.size, comm.rank, sets, lambda v: np.sqrt(2 + v))
    assert [a.tobytes() for a in bare.push(nodes)] == [a.tobytes() for a in wrapped.push(nodes)]


@pytest.mark.mpi(min_size=2)
def test_the_comparison_sees_one_row_that_is_counted_twice_and_one_that_did_not_travel(comm):
    sets, messages = [np.array([1, comm.size])] * comm.size, Messages(comm)
    server = Server(messages, ROWS, 0, comm.size)
    nodes = gradient_nodes(comm.size, comm.rank, sets, lambda v: 4.0**v * (1 + (v == 1)))
    places, total = server.push(nodes)
    found = dict(zip(server.own[places].tolist(), total.tolist()))
    assert (found == provenance(server.own, sets)) == (comm.rank > 1)  # ranks 0 and 1 own the two rows
    fewer = [sets[0], *[some[1:] for some in sets[1:]]]
    pushed = {key: n for key, n in predicted(comm, ROWS, "ps", fewer, machines=in_blocks(comm.size, 1)).items()
              if key[0] == "push"}
    assert (counted(messages) == pushed) == (comm.rank in (0, 1))  # rank 1 owns what it left out
