"""The clients of the owners: all ranks, or one rank of each machine for the whole machine (the aggregator)."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

import numpy as np

from refimpl.gradients import Node, TreeSum, cover, leaves_of
from refimpl.transport.machines import Machines


@dataclass(frozen=True)
class Clients:
    """owners[r]: the owners, other than itself, from which rank r pulls and to which it pushes.

    nodes[r]: the nodes of the microbatch tree that rank r pushes to each of them.
    """

    owners: tuple[tuple[int, ...], ...]
    nodes: tuple[tuple[Node, ...], ...]

    @classmethod
    def every_rank(cls, ranks: int, leaves: int) -> "Clients":
        """Every rank is a client of every owner, and pushes the nodes of its own microbatches. leaves: V. Local."""
        return cls(tuple(tuple(o for o in range(ranks) if o != r) for r in range(ranks)),
                   tuple(tuple(cover(leaves_of(r, ranks, leaves))) for r in range(ranks)))

    def of(self, owner: int) -> list[int]:
        """Return the clients of an owner. Local."""
        return [rank for rank, owners in enumerate(self.owners) if owner in owners]


@dataclass(frozen=True)
class Aggregators:
    """Local aggregation: on each machine one rank is the client of an owner, for all ranks of the machine.

    machines: the ranks of each, rising. Each owner has an aggregator on every machine. On its own machine this is the
    owner. On another machine it is the rank with the owner's index, modulo the number of ranks there. So all ranks
    share the work. (docs/paper.md, Mechanisms)
    """

    machines: Machines

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, machines: Machines) -> "Aggregators | None":
        """Return the aggregators; None if they would save nothing, because no ranks share a machine, or all do."""
        machines = tuple(tuple(sorted(ranks)) for ranks in machines)
        return cls(machines) if 1 < len(machines) < sum(map(len, machines)) else None

    @cached_property
    def _where(self) -> dict[int, tuple[int, int]]:
        """rank -> (its machine, its index on the machine)."""
        return {rank: (m, place) for m, ranks in enumerate(self.machines) for place, rank in enumerate(ranks)}

    @cached_property
    def places(self):
        """The index of each rank on its machine: (N,) int64."""
        return np.array([self._where[rank][1] for rank in range(len(self._where))])

    @cached_property
    def sizes(self):
        """The number of ranks of each rank's machine: (N,) int64."""
        return np.array([len(self.machine(rank)) for rank in range(len(self._where))])

    def machine(self, rank: int) -> tuple[int, ...]:
        """Return the ranks of a rank's machine. Local."""
        return self.machines[self._where[rank][0]]

    def aggregator(self, rank, owner):
        """Return the aggregator for an owner on ``rank``'s machine. Both may be arrays: then of each pair. Local."""
        members = np.concatenate(self.machines)
        return members[np.argsort(members)[rank] - self.places[rank] + self.places[owner] % self.sizes[rank]]

    def owners_of(self, rank: int) -> list[int]:
        """Return the owners for which a rank is its machine's aggregator, itself among them, rising. Local."""
        machine, place = self._where[rank]
        return sorted(owner for ranks in self.machines for owner in ranks[place::len(self.machines[machine])])

    def joined(self, rank: int, leaves: int) -> list[tuple[Node, list[int]]]:
        """Return the nodes that a machine can compute, each with the indices of its ranks' nodes in it, in leaf order.

        leaves: V. Local.
        """
        nodes = [node for peer in self.machine(rank) for node in cover(leaves_of(peer, len(self._where), leaves))]
        return TreeSum.of([(node, [position]) for position, node in enumerate(nodes)], lambda left, right: left + right
                          ).parts

    def clients(self, leaves: int) -> Clients:
        """Return the owners' clients: the aggregators, for owners on other machines. leaves: V. Local."""
        ranks = range(len(self._where))
        return Clients(tuple(tuple(o for o in self.owners_of(r) if o != r) for r in ranks),
                       tuple(tuple(node for node, _ in self.joined(r, leaves)) for r in ranks))
