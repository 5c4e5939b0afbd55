"""Strategy "server" of dense variables: each variable has one owner, as in the classical parameter server.

    bytes at the owner of w bytes: 2 w (N - 1): a hot spot, which allreduce avoids           (docs/paper.md, Bytes)

Its exchange: ``owned_dense``. The plain version: ``refimpl.plain.strategies.dense_server``.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.plan.strategy import Owners
from refimpl.strategies.owned_dense import OwnedDense, Piece


@dataclass(frozen=True)
class ServedDense(OwnedDense):
    """The strategy in a plan. owners: a tuple of the one rank that keeps the variable."""

    name, label, colour, mark = "server", "server", "blue", "o"

    owners: Owners = ()

    @classmethod
    def place(cls, variable, load, partitions, scheme):
        owner = load.index(min(load))
        load[owner] += variable.nbytes
        return cls((owner,))

    def check(self, variable, ranks):
        if len(self.owners) != 1:
            raise ValueError(f"owners {list(self.owners)}; on the server a dense variable has exactly one owner: it is "
                             "not cut")
        super().check(variable, ranks)

    def loads(self, variable, ranks, popularity=None):
        return np.array([float(variable.nbytes * ranks)])  # every rank pulls the whole variable

    @classmethod
    def pieces(cls, placed, ranks):
        return sorted((Piece(strategy.owners[0], variable) for variable, strategy in placed),
                      key=lambda piece: piece.owner)  # those of one owner in the model's order

    @classmethod
    def bucket_bytes(cls, least, ranks):
        return least * ranks  # at least this for each owner, so that all owners have work

    def work(self, variable, plan, sample):
        total = np.zeros(plan.ranks)
        total[self.owners[0]] = variable.nbytes
        return total
