"""Schedules over real MPI: provenance and exact-sum inputs with zero tolerance, bytes equal to the schedule's."""

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.collectives import ALGORITHMS, HALVES, CollectiveError, Wire, make_schedule, run
from refimpl.collectives.machines import in_blocks
from refimpl.gradients import fold

pytestmark = pytest.mark.mpi


def tree_sum(parts):
    return fold(parts, lambda left, right: left + right)


def inputs_with(schedule, value_of):
    return [[value_of(rank, slot) for slot in range(len(nodes))] for rank, nodes in enumerate(schedule.inputs)]


@pytest.mark.parametrize("algorithm", ["auto", *(name for name in ALGORITHMS if name != "halving-doubling")])
@pytest.mark.parametrize("elements", [0, 1, 5, 64, 1001])
@pytest.mark.parametrize("each", [1, 3])
def test_provenance_order_and_bytes(algorithm, elements, each):
    wire = Wire(MPI.COMM_WORLD)
    machines = in_blocks(wire.size, 2) if algorithm == "hierarchical" else None
    schedule = make_schedule(algorithm, wire.size, wire.size * each, machines=machines)
    total = [(rank, slot) for rank, nodes in enumerate(schedule.inputs) for slot in range(len(nodes))]
    code = {place: 4**i for i, place in enumerate(total)}  # base-4 digits tell who was counted how often
    slots = [np.full(elements, code[wire.rank, s], np.int64) for s in range(len(schedule.inputs[wire.rank]))]
    result = run(schedule, wire, slots)
    assert (result == sum(code.values())).all() and result is slots[0]
    assert wire.ledger.total("sent") == 8 * schedule.elements_sent(elements)[wire.rank]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_canonical_schedules_give_the_trees_bits(dtype):
    wire = Wire(MPI.COMM_WORLD)
    for leaves in (wire.size, wire.size + 1, 8 + wire.size):
        for algorithm in ("auto", "direct", *(("binary-blocks", "binomial-tree") if leaves == wire.size else ())):
            schedule = make_schedule(algorithm, wire.size, leaves)
            values = inputs_with(
                schedule, lambda r, s: np.random.default_rng((r, s)).standard_normal(777).astype(dtype))
            parts = [(node, values[r][s]) for r, nodes in enumerate(schedule.inputs) for s, node in enumerate(nodes)]
            expected = tree_sum(parts)
            result = run(schedule, wire, [v.copy() for v in values[wire.rank]])
            assert result.tobytes() == expected.tobytes()


def test_more_ranks_than_microbatches():
    wire = Wire(MPI.COMM_WORLD)
    schedule = make_schedule("direct", wire.size, 1)
    mine = [np.arange(9.0) for _ in schedule.inputs[wire.rank]] or [np.empty(9)]
    assert (run(schedule, wire, mine) == np.arange(9.0)).all()


def test_an_error_on_one_rank_is_everyones_error():
    wire = Wire(MPI.COMM_WORLD)
    wire.agree()
    last = wire.size - 1
    with pytest.raises(CollectiveError) as caught:
        wire.agree(ValueError("the sky is falling — 天") if wire.rank == last else None)
    texts = wire.share_text(str(caught.value))
    assert len(set(texts)) == 1 and "the sky is falling — 天" in texts[0]
    assert wire.size == 1 or f"rank {last}" in texts[0]


def test_share_and_swap():
    wire = Wire(MPI.COMM_WORLD)
    assert wire.share(np.array([wire.rank, -1]), "t").tolist() == [[r, -1] for r in range(wire.size)]
    mine = np.array([[wire.rank, other] for other in range(wire.size)])
    assert wire.swap(mine, "t").tolist() == [[other, wire.rank] for other in range(wire.size)]


def test_halves_and_machines_over_mpi():
    wire, elements = Wire(MPI.COMM_WORLD), 37
    ranks = wire.size
    machines = in_blocks(ranks, 2)
    for name in HALVES:
        if name == "halving-doubling" and ranks & (ranks - 1):
            continue
        topology = machines if name == "hierarchical" else None
        scatter = make_schedule(name, ranks, ranks, "reduce-scatter", topology)
        gather = make_schedule(name, ranks, ranks, "allgather", topology)
        vector = run(scatter, wire, [np.full(elements, 4**wire.rank)])
        bounds, wanted = scatter.bounds(elements), sum(4**rank for rank in range(ranks))
        for chunk, owner in enumerate(scatter.owners):
            assert owner != wire.rank or (vector[bounds[chunk]:bounds[chunk + 1]] == wanted).all()
        assert (run(gather, wire, [vector]) == wanted).all()
        whole = make_schedule(name, ranks, ranks, machines=topology)
        assert (run(whole, wire, [np.full(elements, 4**wire.rank)]) == wanted).all()
