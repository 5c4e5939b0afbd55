"""Who deals with which owner: every rank with all of them, or one rank of each machine for the others (aggregators)."""

from dataclasses import dataclass
from functools import cached_property, lru_cache

from refimpl.gradients import Node, TreeSum, cover, leaves_of
from refimpl.transport.machines import Machines


@dataclass(frozen=True)
class Clients:
    """owners[r]: the owners, other than itself, that rank r deals with.

    nodes[r]: the nodes of the microbatch tree that rank r pushes to each of them.
    """

    owners: tuple[tuple[int, ...], ...]
    nodes: tuple[tuple[Node, ...], ...]

    @classmethod
    def every_rank(cls, ranks: int, leaves: int) -> "Clients":
        """Each rank deals with every owner, and pushes what its own microbatches form. leaves: V. Local."""
        return cls(tuple(tuple(o for o in range(ranks) if o != r) for r in range(ranks)),
                   tuple(tuple(cover(leaves_of(r, ranks, leaves))) for r in range(ranks)))

    def of(self, owner: int) -> list[int]:
        """Return the ranks that deal with an owner. Local."""
        return [rank for rank, owners in enumerate(self.owners) if owner in owners]


@dataclass(frozen=True)
class Aggregators:
    """Local aggregation: for each owner one rank of a machine deals with it, for all ranks of that machine.

    machines: the ranks of each, rising. The aggregator of an owner is the owner itself on its own machine, and on
    another the rank at the same place, so that the work is shared. (docs/paper.md, Mechanisms)
    """

    machines: Machines

    @classmethod
    @lru_cache(maxsize=64)
    def of(cls, machines: Machines) -> "Aggregators | None":
        """Return those of these machines; None where no rank shares a machine, or all do: there is nothing to save."""
        machines = tuple(tuple(sorted(ranks)) for ranks in machines)
        return cls(machines) if 1 < len(machines) < sum(map(len, machines)) else None

    @cached_property
    def _where(self) -> dict[int, tuple[int, int]]:
        """rank -> (its machine, its place there)."""
        return {rank: (m, place) for m, ranks in enumerate(self.machines) for place, rank in enumerate(ranks)}

    def machine(self, rank: int) -> tuple[int, ...]:
        """Return the ranks of a rank's machine. Local."""
        return self.machines[self._where[rank][0]]

    def aggregator(self, rank: int, owner: int) -> int:
        """Return the rank of ``rank``'s machine that deals with an owner. Local."""
        ranks = self.machine(rank)
        return ranks[self._where[owner][1] % len(ranks)]

    def joined(self, rank: int, leaves: int) -> list[tuple[Node, list[int]]]:
        """Return the nodes that a machine's ranks can form together, and of which of their nodes, in leaf order. Local.

        leaves: V.
        """
        nodes = [node for peer in self.machine(rank) for node in cover(leaves_of(peer, len(self._where), leaves))]
        return TreeSum.of([(node, [position]) for position, node in enumerate(nodes)], lambda left, right: left + right
                          ).parts

    def clients(self, leaves: int) -> Clients:
        """Return who deals with the owners: aggregators, with those on other machines. leaves: V. Local."""
        ranks = range(len(self._where))
        return Clients(tuple(tuple(o for o in ranks if o not in self.machine(r) and self.aggregator(r, o) == r)
                             for r in ranks), tuple(tuple(node for node, _ in self.joined(r, leaves)) for r in ranks))
