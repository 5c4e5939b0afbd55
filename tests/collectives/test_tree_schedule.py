"""Packed trees as a schedule: proved, every link's elements counted, and the same sums over MPI."""

from collections import Counter
from fractions import Fraction
from functools import reduce

import numpy as np
import pytest

from refimpl.collectives import make_schedule, prove, run_local
from refimpl.collectives.algorithms.halves import one_node_each
from refimpl.collectives.links import canonical, named_links, pack_canonical, pack_trees
from refimpl.collectives.links import schedule as links_schedule
from refimpl.collectives.links.schedule import shares_of, tree_schedule
from refimpl.collectives.running import run
from refimpl.collectives.running.allreduce import _read_in_place, open_allreduce
from refimpl.collectives.running.shared import SharedRunner
from refimpl.gradients import cover, fold, leaves_of
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

NETWORKS = ("dgx-1v", "mesh-2x3", "ring-5", "path-3", "star-2,2,2,1", "star-3,1,1", "levels-2x2x4x1", "cube-2")


def link_elements(packing, schedule, elements):
    """Return link -> elements that it carries in an allreduce of ``elements``."""
    bounds, carried = schedule.bounds(elements), dict.fromkeys(packing.links.rates, 0)
    for share in shares_of(packing):
        used = list(share.outward.links())
        used += [link for way in share.inward.values() for link in zip(way, way[1:])] if packing.ways else (
            share.inward.links())
        for link in used:
            carried[link] += bounds[share.stop] - bounds[share.start]
    return carried


def packed(name, order):
    links = named_links(name)
    return pack_canonical(links, one_node_each(links.ranks)) if order == "canonical" else pack_trees(links)


@pytest.mark.parametrize("order", ["of the trees", "canonical"])
@pytest.mark.parametrize("name", NETWORKS)
def test_the_schedule_is_proved_and_carries_on_each_link_what_the_trees_say(name, order):
    packing = packed(name, order)
    schedule = tree_schedule(packing)
    proof = prove(schedule)
    assert order != "canonical" or proof.canonical
    assert schedule.name == "trees" and proof.chunks == shares_of(packing)[-1].stop
    elements = 5 * schedule.chunks
    carried = link_elements(packing, schedule, elements)
    # at the packing's rate the fullest link is busy all the time that the vector takes
    time = Fraction(elements) / packing.rate
    assert max(carried[link] / rate for link, rate in packing.links.rates.items()) == time
    assert packing.load() == {
        link: Fraction(carried[link]) / (rate * time) for link, rate in packing.links.rates.items()}
    if not packing.links.switches:  # then a transfer is a link: count what the rounds move
        moved = Counter()
        bounds = schedule.bounds(elements)
        for step in schedule.rounds:
            for t in step.transfers:
                moved[t.source, t.destination] += bounds[t.stop] - bounds[t.start]
        assert moved == {link: count for link, count in carried.items() if count}


CANONICAL = {"star-2,2,1,2": ("1", "1"), "star-2,2,2,2,2,2,2,1": ("1", "1"), "star-2,2,2,2": ("4/3", "4/3"),
             "dgx-1v": ("24/7", "24/7"), "cube-3": ("8/5", "12/7"), "ring-8": ("8/9", "8/7"),
             "mesh-3x3": ("130/103", "3/2")}


@pytest.mark.parametrize("name", CANONICAL)
def test_what_the_order_of_the_microbatch_tree_costs(name):
    """Of many networks, and all stars of cards, nothing."""
    packing = packed(name, "canonical")
    assert packing.rate == packing.best == Fraction(CANONICAL[name][0])
    assert pack_trees(packing.links).rate == Fraction(CANONICAL[name][1])


CANONICAL_MISTAKES = {
    "the tree's order is forgotten": ("fold", lambda parts, add: reduce(add, [value for _, value in parts])),
    "a switch's way is forgotten": ("_extended", lambda amount, so_far, item, pieces: [
        (amount, {**so_far, item: (pieces[0][1][0], pieces[0][1][-1])[:len(pieces[0][1])]})]),
    "pieces are used twice": ("_extended", lambda amount, so_far, item, pieces: [
        (amount, {**so_far, item: pieces[0][1]})]),
}


@pytest.mark.parametrize("mistake", CANONICAL_MISTAKES)
def test_a_mistake_in_a_canonical_packing_is_found(monkeypatch, mistake):
    name, wrong = CANONICAL_MISTAKES[mistake]
    monkeypatch.setattr(canonical, name, wrong)
    with pytest.raises(ValueError, match="links that do not exist|is loaded|reads slot|not canonical"):
        for network in ("star-2,2,2,1", "cube-3", "dgx-1v"):
            schedule = tree_schedule(packed(network, "canonical"))
            if not prove(schedule).canonical:
                raise ValueError("the schedule is not canonical")


def test_a_sum_that_is_left_out_is_found(monkeypatch):
    """The packing and its certificate are right: only prove can see that what a child sent is not added."""
    whole = links_schedule._sum_by_tree
    monkeypatch.setattr(links_schedule, "_sum_by_tree", lambda share, inputs: [
        (moves, sums[1:]) for moves, sums in whole(share, inputs)])
    with pytest.raises(ValueError, match="lost microbatch 1, microbatch 2"):
        tree_schedule(pack_trees(named_links("path-3")))


@pytest.mark.mpi
@pytest.mark.ranks(3, 4)
@pytest.mark.parametrize("kind", ["trees", "canonical-trees"])
def test_trees_over_mpi(comm, kind):
    name = "star-3,1,1" if comm.size == 3 else "star-2,2,2,1"
    schedule = make_schedule(f"{kind}:{name}", comm.size, comm.size)
    data = np.random.default_rng(5).standard_normal((comm.size, 1001)).astype(np.float32)
    expected = [[data[r].copy()] for r in range(comm.size)]
    run_local(schedule, expected)
    communicator, mine = Communicator.of(comm), [data[comm.rank].copy()]
    run(schedule, communicator, mine)
    assert mine[0].tobytes() == expected[comm.rank][0].tobytes() == expected[0][0].tobytes()


def filled(schedule):
    """Return random inputs of each rank, and the sum of all in the order of the microbatch tree."""
    draw = np.random.default_rng(5)
    values = [[draw.standard_normal(1001).astype(np.float32) for _ in nodes] for nodes in schedule.inputs]
    parts = [pair for nodes, own in zip(schedule.inputs, values) for pair in zip(nodes, own)]
    return values, fold(parts, lambda left, right: left + right)


@pytest.mark.parametrize("network, machines, leaves", [
    ("star-2,2,1", in_blocks(6, 2), 8), ("star-2,1,2", in_blocks(7, 3), 9), ("star-2,1", in_blocks(5, 3), 3),
    ("star-2,1,2", ((0, 3), (1, 4), (2, 5)), 12), ("star-2,2,1", in_blocks(9, 3), 2)])
def test_trees_between_machines_have_the_same_bits_and_cross_from_first_to_first_rank(network, machines, leaves):
    schedule = make_schedule(f"hierarchical-trees:{network}", sum(map(len, machines)), leaves, machines=machines)
    assert prove(schedule).canonical
    values, expected = filled(schedule)
    slots = [own or [np.zeros(1001, np.float32)] for own in values]
    run_local(schedule, slots)
    assert {own[0].tobytes() for own in slots} == {expected.tobytes()}
    firsts = {ranks[0] for ranks in machines}
    pairs = {(t.source, t.destination) for step in schedule.rounds for t in step.transfers}
    assert all({*pair} <= firsts or any({*pair} <= {*ranks} for ranks in machines) for pair in pairs)


def test_first_ranks_whose_sums_differ_from_way_to_way_send_messages_within_machines_too():
    fits = [_read_in_place(make_schedule("hierarchical-trees:star-4,2,1,3", 8, leaves, machines=in_blocks(8, 2)),
                           in_blocks(8, 2)) for leaves in (10, 11)]
    assert fits == [True, False]


@pytest.mark.mpi
@pytest.mark.ranks(3, 4)
@pytest.mark.parametrize("shared", [True, False])
def test_trees_between_machines_over_mpi_and_shared_memory(comm, shared):
    communicator = Communicator(comm, machines=in_blocks(comm.size, 2))
    schedule = make_schedule("hierarchical-trees:star-2,1", comm.size, 7, machines=communicator.machines)
    values, expected = filled(schedule)
    allreduce = open_allreduce(schedule, communicator, 1001, expected, "test", lambda start, stop: {"x": stop - start},
                               shared)
    assert isinstance(allreduce, SharedRunner) == shared
    for slot, value in zip(allreduce.slots, values[comm.rank], strict=True):
        slot[:] = value
    assert allreduce().tobytes() == expected.tobytes()


@pytest.mark.parametrize("name, ranks, kind, says", [
    ("trees:star-2,2,1", 4, "allreduce", "the network has 3 ranks, and there are 4; start 3 ranks, or name another"),
    ("trees:nope", 3, "allreduce", "there is no network nope; there are dgx-1v"),
    ("trees:star-2,2,1", 3, "allgather", "trees:star-2,2,1 has no allgather half"),
    ("hierarchical-trees:star-2,2,1", 3, "allreduce", "needs the ranks of each machine"),
])
def test_trees_that_do_not_fit_the_job_are_refused(name, ranks, kind, says):
    with pytest.raises(ValueError, match=says):
        make_schedule(name, ranks, ranks, kind)


def test_trees_between_other_machines_are_refused():
    with pytest.raises(ValueError, match="the network has 3 machines, and there are 2; name another network"):
        make_schedule("hierarchical-trees:star-2,2,1", 4, 4, machines=in_blocks(4, 2))


def test_two_ranks_add_in_the_trees_order_as_all_do():
    assert prove(make_schedule("trees:star-2,1", 2, 8)).canonical
    assert not prove(make_schedule("trees:star-2,1,1", 3, 8)).canonical


def test_other_packings_are_refused():
    with pytest.raises(ValueError, match="the packing is one of allgather: pack for an allreduce"):
        tree_schedule(pack_trees(named_links("ring-3"), "allgather"))
    with pytest.raises(ValueError, match="trees needs a microbatch on every rank"):
        tree_schedule(pack_trees(named_links("path-2")), (tuple(cover(leaves_of(0, 1, 1))), ()))
