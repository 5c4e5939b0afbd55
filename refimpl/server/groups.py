"""Who speaks for whom: ranks of a machine unite what they ask of an owner, and add up what they send it (PAPER.md)."""

from dataclasses import dataclass
from functools import cached_property

from refimpl.gradients import Node, TreeSum, cover, leaves_of
from refimpl.transport.machines import Machines


@dataclass(frozen=True)
class Groups:
    """Ranks that speak to an owner outside with one voice. members: the ranks of each group, each rank in one.

    The *handler* of an owner in a group is the rank through which all that the group says to that owner goes: the
    owner itself in its own group, in another the rank at the same place, so that the work is shared.
    """

    members: Machines

    @classmethod
    def alone(cls, ranks: int) -> "Groups":
        """Each rank speaks for itself: no local aggregation."""
        return cls(tuple((rank,) for rank in range(ranks)))

    @classmethod
    def of_machines(cls, machines: Machines) -> "Groups":
        """One group a machine; but on one machine there is nothing to save, and each rank speaks for itself."""
        machines = tuple(tuple(sorted(ranks)) for ranks in machines)
        return cls(machines) if len(machines) > 1 else cls.alone(sum(map(len, machines)))

    @cached_property
    def _where(self):
        """rank -> (its group, its place in it)."""
        return {rank: (group, place) for group, ranks in enumerate(self.members) for place, rank in enumerate(ranks)}

    @property
    def ranks(self) -> int:
        return len(self._where)

    def group_of(self, rank: int) -> int:
        """Return the group of a rank."""
        return self._where[rank][0]

    def mates(self, rank: int) -> list[int]:
        """Return the other ranks of a rank's group."""
        return [mate for mate in self.members[self.group_of(rank)] if mate != rank]

    def handler(self, group: int, owner: int) -> int:
        """Return the rank that speaks to an owner for a group."""
        ranks = self.members[group]
        return ranks[self._where[owner][1] % len(ranks)]

    def handled(self, rank: int) -> list[int]:
        """Return the owners outside its group to which a rank speaks for the group."""
        group = self.group_of(rank)
        return [o for o in range(self.ranks) if self.group_of(o) != group and self.handler(group, o) == rank]

    def handlers(self, owner: int) -> list[int]:
        """Return the ranks that speak to an owner, one for each other group."""
        return [self.handler(group, owner) for group in range(len(self.members)) if group != self.group_of(owner)]


def group_nodes(members, ranks: int, leaves: int) -> list[tuple[Node, list[int]]]:
    """Return the nodes that a group's nodes join to, and which of them each is made of, counted in leaf order. Local.

    members: the group's ranks, rising.  ranks: N.  leaves: V.
    """
    tree = TreeSum(lambda left, right: left + right)
    nodes = [node for rank in members for node in cover(leaves_of(rank, ranks, leaves))]
    for position, node in enumerate(nodes):
        tree.push(node, [position])
    return tree.parts
