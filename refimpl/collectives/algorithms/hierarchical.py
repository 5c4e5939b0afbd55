"""Hierarchical allreduce: within each machine, across machines, within each machine (the levels of Horovod and NCCL).

    machine A: 0 1 2        Each machine has L lanes, L the size of the smallest one. Within a machine, a lane's rank
               | | |        receives its share (1/L) of all vectors, and adds what forms nodes of the microbatch tree.
    machine B: 3 4 5        Then the ranks of a lane do the same over the M machines (1/M of the share): rank 3 owns
          lane 0 1 2        chunk L0M1. Then back.

There are always 4 rounds, of which some may be empty: 0 and 1 reduce, within and across; 2 and 3 gather, across and
within.
Chunk lane * M + machine belongs to the lane's rank of that machine. Ranks of a machine beyond the L lowest own nothing.

The order is reproducible for every number of ranks, microbatches and machines. The microbatches of machine m are
covered by c_m nodes, which are kept apart until the owner of a chunk has those of all machines, and adds them in tree
order. So (c_m + 1) (M - 1) / M * n bytes leave machine m, shared by its lanes. If its microbatches form one node, this
is 2 (M - 1) / M * n, the lower bound for M machines; otherwise usually two or three times as much. Machines of
consecutive ranks have the fewest nodes.
"""

from refimpl.collectives.algorithms.halves import joins_of, sums_of
from refimpl.collectives.schedule import Round, Transfer


def checked_machines(machines, ranks):
    """Return the machines in order, and their ranks. Raises ValueError unless they are a partition of the ranks."""
    if machines is None:
        raise ValueError("hierarchical needs the ranks of each machine: give machines=comm.machines, or "
                         "in_blocks(ranks, each); on the command line --machines SIZE ...")
    machines = [sorted(machine) for machine in machines]
    if sorted(rank for machine in machines for rank in machine) != list(range(ranks)) or not all(machines):
        raise ValueError(f"hierarchical: machines must hold each of the ranks 0 to {ranks - 1} once; given {machines}")
    return sorted(machines)


def _bring(owner, start, stop, held, free):
    """Return (transfers, parts): ``owner`` receives chunks [start, stop) from others, in slots from ``free`` on.

    held: (node, rank, slot).  parts: (node, slot of the owner) in leaf order.
    """
    transfers, parts = [], []
    for node, rank, slot in sorted(held, key=lambda part: part[0].first_leaf):
        if rank != owner:
            transfers.append(Transfer(rank, owner, start, stop, slot, free))
            slot, free = free, free + 1
        parts.append((node, slot))
    return transfers, parts


def within(inputs, machines, lanes: int, width: int):
    """Return (round, held): held[lane]: (node, rank, slot) on the lane's ranks. width: chunks of a lane. Local."""
    transfers, sums, held = [], [], [[] for _ in range(lanes)]
    for machine in machines:
        inside = [(node, rank, slot) for rank in machine for slot, node in enumerate(inputs[rank])]
        for lane, rank in enumerate(machine[:lanes]):
            share = lane * width, (lane + 1) * width
            sent, parts = _bring(rank, *share, inside, len(inputs[rank]))
            joins, left = joins_of(rank, parts, *share)
            transfers, sums = transfers + sent, sums + joins
            held[lane] += [(node, rank, slot) for node, slot in left]
    return Round(tuple(transfers), tuple(sums)), held


def _across(machines, held):
    """Return the round in which each chunk's owner receives its lane's nodes from all machines and adds them up."""
    many, transfers, sums = len(machines), [], []
    for lane, nodes in enumerate(held):
        for chunk, machine in enumerate(machines, lane * many):
            owner = machine[lane]
            free = 1 + max((slot for _, rank, slot in nodes if rank == owner), default=-1)
            sent, parts = _bring(owner, chunk, chunk + 1, nodes, free)
            transfers, sums = transfers + sent, sums + sums_of(owner, parts, chunk, chunk + 1)
    return Round(tuple(transfers), tuple(sums))


def reduce_scatter(inputs, machines=None):
    """Yield the two rounds; return the owners. inputs[r]: tree nodes of rank r, none if it has no microbatch.

    machines: the ranks of each machine. Raises ValueError unless they are a partition of the ranks.
    """
    machines = checked_machines(machines, len(inputs))
    lanes = min(map(len, machines))
    step, held = within(inputs, machines, lanes, len(machines))
    yield step
    yield _across(machines, held)
    return tuple(machine[lane] for lane in range(lanes) for machine in machines)


def allgather(ranks, machines=None):
    """Yield the two rounds: owners send to their lane on the other machines, lanes send within their machine."""
    machines = checked_machines(machines, ranks)
    lanes, many = min(map(len, machines)), len(machines)
    yield Round(tuple(Transfer(machine[lane], other[lane], chunk, chunk + 1)
                      for lane in range(lanes) for chunk, machine in enumerate(machines, lane * many)
                      for other in machines if other is not machine))
    yield Round(tuple(Transfer(machine[lane], rank, lane * many, (lane + 1) * many)
                      for machine in machines for lane in range(lanes) for rank in machine if rank != machine[lane]))
