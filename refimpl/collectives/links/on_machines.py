"""Reproducible trees between machines of several ranks: within each machine to its first rank, trees, and back.

machine A: 0 1 2      Rank 0 receives all vectors of its machine, and adds what forms nodes of the microbatch tree.
           |/_/       Ranks 0, 3, ... are the nodes of the packed network: they sum their nodes over it, and send
machine B: 3 4 5      the answer over it. Then each sends it to the ranks of its machine.
"""

from refimpl.collectives.algorithms.halves import collect
from refimpl.collectives.algorithms.hierarchical import checked_machines, within
from refimpl.collectives.links.graph import Links
from refimpl.collectives.links.pack import pack_canonical
from refimpl.collectives.links.schedule import packed_rounds, shares_of
from refimpl.collectives.prove import prove
from refimpl.collectives.schedule import Round, Schedule, Sum, Transfer


def machine_schedule(links: Links, inputs, machines, name: str) -> Schedule:
    """Return the proved schedule of an allreduce over the machines of a network. Local.

    links: its rank m is machine m.  inputs[r]: tree nodes of rank r, as in ``Schedule``.
    Raises ValueError if the network has another number of machines.
    """
    machines = checked_machines(machines, len(inputs))
    if links.ranks != len(machines):
        raise ValueError(f"--allreduce {name}: the network has {links.ranks} machines, and there are {len(machines)}; "
                         "name another network")
    firsts = [machine[0] for machine in machines]
    _, [held] = within(inputs, machines, 1, 1)
    slots = [[slot for _, rank, slot in held if rank == first] for first in firsts]
    nodes = tuple(tuple(node for node, rank, _ in held if rank == first) for first in firsts)
    packing = pack_canonical(links, nodes)
    shares = shares_of(packing)
    chunks = shares[-1].stop

    def place(machine, slot):
        """Return a slot of the machine's first rank. Slot 0 is its slot 0, where the sum ends."""
        own = slots[machine]
        return own[slot] if slot < len(own) else max(own, default=-1) + 1 + slot - len(own)

    def between(step):
        return Round(tuple(Transfer(firsts[t.source], firsts[t.destination], t.start, t.stop, place(t.source, t.origin),
                                    place(t.destination, t.target)) for t in step.transfers),
                     tuple(Sum(firsts[s.rank], place(s.rank, s.into), place(s.rank, s.other), s.start, s.stop)
                           for s in step.sums))

    rounds, owners = collect(packed_rounds(packing, shares, nodes))
    back = Round(tuple(Transfer(first, rank, 0, chunks) for first, machine in zip(firsts, machines)
                       for rank in machine[1:]))
    schedule = Schedule(name, chunks, inputs, (within(inputs, machines, 1, chunks)[0], *map(between, rounds), back),
                        owners=tuple(firsts[owner] for owner in owners))
    prove(schedule)
    return schedule
