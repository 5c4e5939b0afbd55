"""Schedules over real MPI: provenance and exact-sum inputs with zero tolerance, bytes equal to the schedule's."""

import numpy as np
import pytest
from mpi4py import MPI

from refimpl.collectives import ALGORITHMS, HALVES, make_schedule
from refimpl.collectives.running import run
from refimpl.gradients import fold
from refimpl.transport import CollectiveError, Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3, 4)]


def tree_sum(parts):
    return fold(parts, lambda left, right: left + right)


def inputs_with(schedule, value_of):
    return [[value_of(rank, slot) for slot in range(len(nodes))] for rank, nodes in enumerate(schedule.inputs)]


@pytest.mark.parametrize("algorithm", ["auto", *(name for name in ALGORITHMS if name != "halving-doubling")])
@pytest.mark.parametrize("elements, each", [(0, 1), (1, 3), (5, 1), (1001, 3)])
def test_provenance_order_and_bytes(algorithm, elements, each):
    communicator = Communicator.of(MPI.COMM_WORLD)
    machines = in_blocks(communicator.size, 2) if algorithm == "hierarchical" else None
    schedule = make_schedule(algorithm, communicator.size, communicator.size * each, machines=machines)
    total = [(rank, slot) for rank, nodes in enumerate(schedule.inputs) for slot in range(len(nodes))]
    code = {place: 4**i for i, place in enumerate(total)}  # base-4 digits tell who was counted how often
    mine = range(len(schedule.inputs[communicator.rank]))
    slots = [np.full(elements, code[communicator.rank, s], np.int64) for s in mine]
    result = run(schedule, communicator, slots)
    assert (result == sum(code.values())).all() and result is slots[0]
    assert communicator.ledger.total("sent") == 8 * schedule.elements_sent(elements)[communicator.rank]


def test_canonical_schedules_give_the_trees_bits():
    communicator = Communicator.of(MPI.COMM_WORLD)
    for leaves in (communicator.size, communicator.size + 1, 8 + communicator.size):
        one_a_rank = ("binary-blocks", "binomial-tree") if leaves == communicator.size else ()
        for algorithm in ("auto", "direct", *one_a_rank):
            schedule = make_schedule(algorithm, communicator.size, leaves)
            values = inputs_with(
                schedule, lambda r, s: np.random.default_rng((r, s)).standard_normal(777).astype(np.float32))
            parts = [(node, values[r][s]) for r, nodes in enumerate(schedule.inputs) for s, node in enumerate(nodes)]
            expected = tree_sum(parts)
            result = run(schedule, communicator, [v.copy() for v in values[communicator.rank]])
            assert result.tobytes() == expected.tobytes()


def test_more_ranks_than_microbatches():
    communicator = Communicator.of(MPI.COMM_WORLD)
    schedule = make_schedule("direct", communicator.size, 1)
    mine = [np.arange(9.0) for _ in schedule.inputs[communicator.rank]] or [np.empty(9)]
    assert (run(schedule, communicator, mine) == np.arange(9.0)).all()


def test_an_error_on_one_rank_is_everyones_error():
    communicator = Communicator.of(MPI.COMM_WORLD)
    communicator.agree()
    last = communicator.size - 1
    with pytest.raises(CollectiveError) as caught:
        communicator.agree(ValueError("the sky is falling — 天") if communicator.rank == last else None)
    texts = communicator.share_text(str(caught.value))
    assert len(set(texts)) == 1 and "the sky is falling — 天" in texts[0]
    assert communicator.size == 1 or f"rank {last}" in texts[0]


def test_halves_and_machines_over_mpi():
    communicator, elements = Communicator.of(MPI.COMM_WORLD), 37
    ranks = communicator.size
    machines = in_blocks(ranks, 2)
    for name in HALVES:
        if name == "halving-doubling" and ranks & (ranks - 1):
            continue
        topology = machines if name == "hierarchical" else None
        scatter = make_schedule(name, ranks, ranks, "reduce-scatter", topology)
        gather = make_schedule(name, ranks, ranks, "allgather", topology)
        vector = run(scatter, communicator, [np.full(elements, 4**communicator.rank)])
        bounds, wanted = scatter.bounds(elements), sum(4**rank for rank in range(ranks))
        for chunk, owner in enumerate(scatter.owners):
            assert owner != communicator.rank or (vector[bounds[chunk]:bounds[chunk + 1]] == wanted).all()
        assert (run(gather, communicator, [vector]) == wanted).all()
        whole = make_schedule(name, ranks, ranks, machines=topology)
        assert (run(whole, communicator, [np.full(elements, 4**communicator.rank)]) == wanted).all()
