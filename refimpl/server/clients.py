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

    machines: the ranks of each, rising. On its own machine an owner is its own aggregator. On another machine it is the
    rank at the same place, so that all ranks share the work. (docs/paper.md, Mechanisms)
    """

    machines: Machines

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, machines: Machines) -> "Aggregators | None":
        """Return the aggregators; None if no ranks share a machine or all do, since this would save nothing."""
        machines = tuple(tuple(sorted(ranks)) for ranks in machines)
        return cls(machines) if 1 < len(machines) < sum(map(len, machines)) else None

    @cached_property
    def _where(self) -> dict[int, tuple[int, int]]:
        """rank -> (its machine, its place there)."""
        return {rank: (m, place) for m, ranks in enumerate(self.machines) for place, rank in enumerate(ranks)}

    @cached_property
    def places(self):
        """The place of each rank on its machine: (N,) int64."""
        return np.array([self._where[rank][1] for rank in range(len(self._where))])

    @cached_property
    def sizes(self):
        """How many ranks each rank's machine has: (N,) int64."""
        return np.array([len(self.machine(rank)) for rank in range(len(self._where))])

    def machine(self, rank: int) -> tuple[int, ...]:
        """Return the ranks of a rank's machine. Local."""
        return self.machines[self._where[rank][0]]

    def aggregator(self, rank, owner):
        """Return the aggregator for an owner on ``rank``'s machine; for arrays of both, of each pair. Local."""
        members = np.concatenate(self.machines)
        return members[np.argsort(members)[rank] - self.places[rank] + self.places[owner] % self.sizes[rank]]

    def owners_of(self, rank: int) -> list[int]:
        """Return the owners, rising, for which a rank is the aggregator on its machine; it is one of them. Local."""
        machine, place = self._where[rank]
        return sorted(owner for ranks in self.machines for owner in ranks[place::len(self.machines[machine])])

    def joined(self, rank: int, leaves: int) -> list[tuple[Node, list[int]]]:
        """Return the nodes that a machine can compute, with the places of the ranks' nodes in each, in leaf order.

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
