"""Hierarchical allreduce: within each machine, across machines, within (Horovod's and NCCL's two levels).

    machine A: 0 1 2        each machine has L lanes, L the size of the smallest. The lane's rank adds up its share of
               | | |        the vector within the machine (1/L of it), then the ranks of one lane do so across the M
    machine B: 3 4 5        machines (1/M of that): rank 3 owns chunk L0M1. And back.
          lane 0 1 2

4 rounds. 2 (M - 1) / M * n bytes leave a machine and enter it, shared by its lanes: the lower bound for M machines.
Sums within a machine and across machines are each taken in tree order: canonical where the machines, in order of rank,
are nodes of one level (2 or 3 machines of 4 ranks; not of 3).
"""

from refimpl.collectives.halves import add_own, mirror, one_node_each, sums_of
from refimpl.collectives.schedule import Round, Transfer
from refimpl.gradients import Node


def _checked(machines, ranks):
    machines = [sorted(machine) for machine in machines or [range(ranks)]]
    if sorted(rank for machine in machines for rank in machine) != list(range(ranks)) or not all(machines):
        raise ValueError(f"hierarchical: machines must share out ranks 0 to {ranks - 1}, each once; given {machines}")
    return sorted(machines)


def _reduce(groups, scratch):
    """Return the round in which each group's owner is sent its chunks by all its members and adds them up.

    groups: (owner, start, stop, [(tree node, member)]).
    """
    transfers, sums = [], []
    for owner, start, stop, members in groups:
        parts, free = [], scratch[owner]
        for node, rank in members:
            slot = 0
            if rank != owner:
                slot, free = free, free + 1
                transfers.append(Transfer(rank, owner, start, stop, target=slot))
            parts.append((node, slot))
        sums += sums_of(owner, parts, start, stop)
    return Round(tuple(transfers), tuple(sums))


def reduce_scatter(inputs, machines=None):
    """Yield the rounds; return the owners. inputs[r]: tree nodes of rank r, first added up.

    machines: the ranks of each machine (default: all ranks on one). Raises ValueError if they are no partition of the ranks.
    """
    machines = _checked(machines, len(inputs))
    many, lanes = len(machines), min(map(len, machines))
    scratch = [len(nodes) for nodes in inputs]
    yield from add_own("hierarchical", inputs, lanes * many)
    within = [(machine[lane], lane * many, (lane + 1) * many, [(inputs[r][0], r) for r in machine])
              for machine in machines for lane in range(lanes)]
    yield _reduce(within, scratch)
    across = [(machines[m][lane], lane * many + m, lane * many + m + 1,
               [(Node(0, other), machines[other][lane]) for other in range(many)])
              for lane in range(lanes) for m in range(many)]
    yield _reduce(across, scratch)
    return tuple(owner for owner, *_ in across)


def allgather(ranks, machines=None):
    """Yield the rounds backwards: across machines, then within each."""
    yield from mirror(reduce_scatter(one_node_each(ranks), machines))
