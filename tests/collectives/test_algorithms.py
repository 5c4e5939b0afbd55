"""Every algorithm for many numbers of ranks: rounds, bytes, who owns what, canonical or not."""

import numpy as np
import pytest

from refimpl.collectives import ALGORITHMS, HALVES, check_programs, make_schedule, prove
from refimpl.collectives.algorithms.double_tree import parents_in_trees
from refimpl.gradients import Node, leaves_of
from refimpl.transport.machines import in_blocks, machine_of, machines_of

NUMBERS = (*range(1, 10), 12, 16, 17, 33)
ANY_NUMBER = [name for name in ALGORITHMS if name != "halving-doubling"]


def power_of_two(n):
    return n & (n - 1) == 0


def ceil_log2(n):
    return (n - 1).bit_length()


def floor_log2(n):
    return n.bit_length() - 1


@pytest.mark.parametrize("name", ANY_NUMBER)
def test_any_number_of_ranks_and_microbatches_and_the_halves(name):
    for ranks in NUMBERS:
        machines = in_blocks(ranks, 3) if name == "hierarchical" else None
        for leaves in (ranks, 2 * ranks, ranks + ranks // 2, 3 * ranks + 1):
            schedule = make_schedule(name, ranks, leaves, machines=machines)  # proves it
            if leaves <= 2 * ranks:
                check_programs(schedule.programs())
        if name in HALVES:
            halves = [make_schedule(name, ranks, ranks, kind, machines) for kind in ("reduce-scatter", "allgather")]
            whole = prove(make_schedule(name, ranks, ranks, machines=machines))
            parts = [prove(half) for half in halves]
            assert halves[0].owners == halves[1].owners and len(halves[0].owners) == halves[0].chunks == whole.chunks
            assert sum(part.rounds for part in parts) == whole.rounds
            assert [sum(sent) for sent in zip(*(part.chunks_sent for part in parts))] == list(whole.chunks_sent)
            assert parts[0].canonical == whole.canonical and parts[1].canonical
            assert max(parts[0].chunks_sent) >= parts[0].bound == whole.bound / 2


@pytest.mark.parametrize("ranks", NUMBERS)
def test_direct_is_canonical_for_any_numbers(ranks):
    for leaves in {1, ranks, ranks + 3, 2 * ranks, 16}:
        proof = prove(make_schedule("direct", ranks, leaves))
        assert proof.canonical and proof.rounds == (2 if ranks > 1 else 0)


@pytest.mark.parametrize("ranks", [1, 2, 4, 8, 16, 32])
def test_halving_doubling_is_canonical_and_meets_the_bound(ranks):
    for each in (1, 2, 4):
        proof = prove(make_schedule("halving-doubling", ranks, ranks * each))
        assert proof.canonical and max(proof.chunks_sent) == proof.bound and proof.ports <= 1
        assert proof.rounds == 2 * (ranks.bit_length() - 1)


@pytest.mark.parametrize("ranks", NUMBERS)
def test_ring_is_correct_meets_the_bound_and_is_not_canonical(ranks):
    proof = prove(make_schedule("ring", ranks, ranks))
    assert max(proof.chunks_sent) == max(proof.chunks_received) == proof.bound == 2 * (ranks - 1) == proof.rounds
    assert proof.busiest_link == ((0, 1, 2 * (ranks - 1)) if ranks > 1 else None)
    assert max(proof.chunks_added) == ranks - 1
    assert proof.canonical == (ranks <= 2) and proof.ports == (ranks > 1)


@pytest.mark.parametrize("ranks", NUMBERS)
def test_rabenseifner(ranks):
    proof, core = prove(make_schedule("rabenseifner", ranks, ranks)), 1 << floor_log2(ranks)
    if power_of_two(ranks):
        assert max(proof.chunks_sent) == proof.bound and proof.rounds == 2 * floor_log2(ranks) and proof.canonical
    else:
        assert proof.rounds == 2 * floor_log2(ranks) + 3
        assert max(proof.chunks_sent) == 2 * (core - 1) + 3 * core / 2 and proof.chunks == core
    assert proof.canonical == power_of_two(ranks + (ranks & -ranks))  # N = 2**a - 2**b


@pytest.mark.parametrize("ranks", NUMBERS)
def test_recursive_doubling_and_trees(ranks):
    doubling = prove(make_schedule("recursive-doubling", ranks, ranks))
    assert doubling.rounds == floor_log2(ranks) + (0 if power_of_two(ranks) else 2) and doubling.ports <= 1
    assert max(doubling.chunks_sent) == floor_log2(ranks) + (not power_of_two(ranks))
    assert doubling.canonical == prove(make_schedule("rabenseifner", ranks, ranks)).canonical  # the same folding
    tree = prove(make_schedule("binomial-tree", ranks, ranks))
    assert tree.canonical and tree.rounds == 2 * ceil_log2(ranks) and tree.ports == (ranks > 1)
    assert max(tree.chunks_sent) == tree.chunks_received[0] == ceil_log2(ranks)
    assert prove(make_schedule("binomial-tree", ranks, 4 * ranks)).canonical


@pytest.mark.parametrize("ranks", NUMBERS)
def test_double_tree_shares_the_work(ranks):
    proof = prove(make_schedule("double-tree", ranks, ranks))
    assert max(proof.chunks_sent) <= 2 * proof.chunks  # 2 n
    twice = set.intersection(*(set(tree.values()) for tree in parents_in_trees(ranks)))  # inside both trees
    assert twice <= ({0} if ranks % 2 else set())
    assert proof.ports == (ranks > 1) and proof.rounds <= 4 * ceil_log2(ranks) + 2
    assert proof.canonical == (ranks <= 2)


@pytest.mark.parametrize("ranks", NUMBERS)
def test_binary_blocks_is_canonical_for_any_number(ranks):
    for each in (1, 2, 8):
        proof = prove(make_schedule("binary-blocks", ranks, each * ranks))
        assert proof.canonical and proof.rounds == 2 * ceil_log2(ranks)
        assert max(proof.chunks_sent) <= 2 * proof.chunks


def leaving(schedule, machines):
    """Return how many chunks each machine sends to the others."""
    machine = {rank: m for m, group in enumerate(machines) for rank in group}
    return [sum(t.stop - t.start for step in schedule.rounds for t in step.transfers
                if machine[t.source] == m != machine[t.destination]) for m in range(len(machines))]


@pytest.mark.parametrize("ranks", NUMBERS)
def test_hierarchical_is_canonical_and_sends_each_tree_node_of_a_machine_once(ranks):
    random = np.random.default_rng(ranks)
    scattered = machines_of(random.integers(0, 4, ranks))
    for machines in {scattered, in_blocks(ranks, 1), in_blocks(ranks, ranks),
                     *(in_blocks(ranks, int(each)) for each in random.integers(2, 9, 1))}:
        for leaves in {ranks, int(random.integers(1, ranks + 1)), int(random.integers(ranks, 3 * ranks + 2))}:
            schedule = make_schedule("hierarchical", ranks, leaves, machines=machines)
            assert prove(schedule).canonical and len(schedule.rounds) == 4
            check_programs(schedule.programs())
            nodes = [maximal_nodes(leaf for r in group for leaf in leaves_of(r, ranks, leaves)) for group in machines]
            others, lanes = len(machines) - 1, min(map(len, machines))
            assert leaving(schedule, machines) == [(c + 1) * others * lanes for c in nodes]
        halves = [make_schedule("hierarchical", ranks, leaves, kind, machines)  # proves them
                  for kind in ("reduce-scatter", "allgather")]
        assert halves[0].rounds + halves[1].rounds == schedule.rounds


def maximal_nodes(leaves):
    """Return how many nodes are needed to cover a set of leaves, found by joining siblings wherever there are any."""
    nodes = {Node(0, leaf) for leaf in leaves}
    while pair := next(((a, Node(a.level, a.index + 1)) for a in nodes
                        if a.is_left_sibling_of(Node(a.level, a.index + 1))
                        and Node(a.level, a.index + 1) in nodes), None):
        nodes = nodes - set(pair) | {pair[0].parent}
    return len(nodes)


def test_hierarchical_within_one_machine_then_across_then_back():
    machines = in_blocks(8, 4)
    inside = [all(t.source // 4 == t.destination // 4 for t in step.transfers)
              for step in make_schedule("hierarchical", 8, 8, machines=machines).rounds]
    assert inside == [True, False, False, True]
    for each in (2, 4, 8):  # aligned: the lower bound for M machines, 2 (M - 1) / M n
        machines = in_blocks(32, each)
        schedule = make_schedule("hierarchical", 32, 32, machines=machines)
        many = len(machines)
        assert leaving(schedule, machines) == [2 * (many - 1) * schedule.chunks // many] * many


def test_hierarchical_does_not_guess_the_machines():
    with pytest.raises(ValueError, match=r"needs the ranks of each machine: .*in_blocks\(ranks, each\); "
                                         r"on the command line --machines"):
        make_schedule("hierarchical", 4, 4)


@pytest.mark.parametrize("machines", [((0, 1), (1, 2)), ((0, 1),), ((0, 1, 2), ()), ((0, 1), (2, 3))])
def test_machines_must_share_the_ranks_out(machines):
    with pytest.raises(ValueError, match="each of the ranks 0 to 2 once"):
        make_schedule("hierarchical", 3, 3, machines=machines)


def test_hierarchical_takes_machines_in_any_order_and_others_take_none():
    prove(make_schedule("hierarchical", 5, 5, machines=((4, 1), (0, 3, 2))))
    with pytest.raises(ValueError, match="ring takes no machines"):
        make_schedule("ring", 2, 2, machines=((0, 1),))


def test_machines():
    assert in_blocks(5, 2) == ((0, 1), (2, 3), (4,))
    assert machines_of([7, 3, 7, 3]) == ((0, 2), (1, 3))
    assert machine_of(((0, 2), (1, 3)), 3) == 1


def test_auto_chooses_a_canonical_schedule():
    assert make_schedule("auto", 4, 8).name == "halving-doubling"
    assert {make_schedule("auto", n, 8).name for n in (3, 5, 6, 7)} == {"direct"}
    assert make_schedule("auto", 4, 8, "allgather").name == "halving-doubling"


@pytest.mark.parametrize("ranks, leaves", [(3, 3), (4, 12), (6, 6)])
def test_halving_doubling_refuses_what_it_cannot_do_canonically(ranks, leaves):
    with pytest.raises(ValueError, match="--allreduce direct"):
        make_schedule("halving-doubling", ranks, leaves)


@pytest.mark.parametrize("name", [name for name in ANY_NUMBER if name not in ("direct", "hierarchical")])
def test_a_rank_without_microbatches_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} needs a microbatch on every rank: give more --microbatches, or"):
        make_schedule(name, 3, 2)


def test_unknown_names():
    with pytest.raises(ValueError, match="there are auto, direct"):
        make_schedule("nonsense", 2, 2)
    with pytest.raises(ValueError, match="no kind of schedule 'scatter'; there are allreduce, reduce-scatter"):
        make_schedule("ring", 2, 2, "scatter")
    with pytest.raises(ValueError, match="recursive-doubling has no allgather half; there are direct"):
        make_schedule("recursive-doubling", 2, 2, "allgather")
