"""Make a proved schedule from an algorithm's name, or an unproved one from a user's rounds."""

from dataclasses import replace
from functools import lru_cache

from refimpl.collectives.algorithms import (
    binary_blocks, binomial_tree, direct, double_tree, halving_doubling, hierarchical, rabenseifner, ring,
)
from refimpl.collectives.algorithms.halves import allreduce_of, collect, one_node_each
from refimpl.collectives.algorithms.recursive_doubling import recursive_doubling
from refimpl.collectives.prove import prove
from refimpl.collectives.schedule import KINDS, NCCL, Schedule
from refimpl.gradients import cover, leaves_of

HALVES = {
    "direct": direct, "halving-doubling": halving_doubling, "ring": ring, "rabenseifner": rabenseifner,
    "binary-blocks": binary_blocks, "binomial-tree": binomial_tree, "double-tree": double_tree,
    "hierarchical": hierarchical,
}
"""name -> module with the generators reduce_scatter(inputs) -> owners and allgather(ranks)."""

ALGORITHMS = {name: allreduce_of(halves.reduce_scatter, halves.allgather) for name, halves in HALVES.items()}
ALGORITHMS["recursive-doubling"] = recursive_doubling
"""name -> generator(inputs): it yields an allreduce's rounds and returns the chunks' owners between the halves."""

TREES, CANONICAL_TREES, MACHINE_TREES = "trees:", "canonical-trees:", "hierarchical-trees:"
"""The first parts of the names of allreduces over packed trees. The name of a network follows, see ``links.NAMED``."""
AUTO_ON = "auto:"
"""The first part of the name of an automatic choice for a network's links. A plan names the result."""


def by_machine(algorithm: str) -> bool:
    """Return whether an algorithm needs the ranks of each machine. Local."""
    return algorithm.startswith("hierarchical")


@lru_cache(maxsize=64, typed=True)  # typed: V may be a ``Dealt``
def make_schedule(algorithm: str, ranks: int, leaves: int, kind: str = "allreduce", machines=None) -> Schedule:
    """Return the proved schedule of an algorithm for ``leaves`` microbatches on ``ranks`` ranks. Local.

    ``auto`` takes halving-doubling if each rank has one node of one level (log2(N) rounds), else direct; both orders
    are reproducible. kind: see ``Schedule``.  machines: for hierarchical, a tuple of tuples: the ranks that share
    memory. ``nccl``: NCCL's own allreduce, only on GPUs; its bytes are counted as the ring's, and its order is not
    reproducible. ``trees:NETWORK``: spanning trees packed into the links between the ranks of a network; the order is
    not reproducible. ``canonical-trees:NETWORK``: such trees send the answer, but sums are nodes of the microbatch
    tree. ``hierarchical-trees:NETWORK``: the same between machines, which are the network's nodes.
    Raises ValueError for an unknown algorithm, or one that does not work with these numbers.
    """
    if algorithm == NCCL:
        return replace(make_schedule("ring", ranks, leaves, kind), name=NCCL)
    inputs = tuple(tuple(cover(leaves_of(r, ranks, leaves))) for r in range(ranks))
    if algorithm == "auto":
        algorithm = _auto(inputs)
    if algorithm.startswith((TREES, CANONICAL_TREES, MACHINE_TREES)):
        return _trees(algorithm, inputs, kind, machines)
    if algorithm not in ALGORITHMS:
        raise ValueError(f"no allreduce algorithm {algorithm!r}; there are auto, {', '.join(ALGORITHMS)}")
    if machines is not None and not by_machine(algorithm):
        raise ValueError(f"{algorithm} takes no machines: leave them out, or name hierarchical")
    schedule = _schedule(algorithm, inputs, kind, {} if machines is None else {"machines": machines})
    prove(schedule)
    return schedule


def _trees(algorithm, inputs, kind, machines):
    from refimpl.collectives.links import named_links, pack_canonical, pack_trees  # SciPy loads slowly
    from refimpl.collectives.links.on_machines import machine_schedule
    from refimpl.collectives.links.schedule import tree_schedule

    links = named_links(algorithm.partition(":")[2])
    if algorithm.startswith(MACHINE_TREES) and kind == "allreduce":
        return machine_schedule(links, inputs, machines, algorithm)
    if links.ranks != len(inputs):
        raise ValueError(f"--allreduce {algorithm}: the network has {links.ranks} ranks, and there are {len(inputs)}; "
                         f"start {links.ranks} ranks, or name another network")
    if kind != "allreduce":
        raise ValueError(f"{algorithm} has no {kind} half; there are {', '.join(HALVES)}")
    packing = pack_trees(links) if algorithm.startswith(TREES) else pack_canonical(links, inputs)
    return tree_schedule(packing, inputs, algorithm)


def schedule_of(rounds, ranks: int, chunks: int, name: str = "own") -> Schedule:
    """Return an allreduce from a user's rounds, in which rank r begins with microbatch r in slot 0. Local.

    rounds: an iterable of Round.  ``prove`` can prove the result.
    """
    return Schedule(name, chunks, one_node_each(ranks), tuple(rounds))


def _auto(inputs) -> str:
    ranks = len(inputs)
    aligned = ranks & (ranks - 1) == 0 and {len(nodes) for nodes in inputs} == {1}
    aligned = aligned and len({node.level for nodes in inputs for node in nodes}) == 1
    return "halving-doubling" if aligned else "direct"


def _schedule(algorithm, inputs, kind, topology):
    if kind not in KINDS:
        raise ValueError(f"no kind of schedule {kind!r}; there are {', '.join(KINDS)}")
    if kind == "allreduce":
        rounds, owners = collect(ALGORITHMS[algorithm](inputs, **topology))
        return Schedule(algorithm, len(owners), inputs, rounds)
    if algorithm not in HALVES:
        raise ValueError(f"{algorithm} has no {kind} half; there are {', '.join(HALVES)}")
    rounds, owners = collect(HALVES[algorithm].reduce_scatter(inputs, **topology))
    if kind == "allgather":
        inputs, rounds = ((),) * len(inputs), tuple(HALVES[algorithm].allgather(len(inputs), **topology))
    return Schedule(algorithm, len(owners), inputs, rounds, kind, owners)
