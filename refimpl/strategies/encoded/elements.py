"""Strategy "elements" of dense variables: every rank has a replica; elements picked by a codec go to all ranks.

    bytes out of a rank: 8 (N - 1) for each element in the nodes of its microbatches (the indices of a node are a union)

Codecs such as ``topk`` choose it in every architecture. Plain: ``strategies.replicas``, ``encoding.sparse_codecs``.
"""

import math
from dataclasses import dataclass

import numpy as np

from kernels import RowGradient
from refimpl.gradients import ElementTree, cover, leaves_of
from refimpl.plan.cost import INDEX
from refimpl.plan.strategy import Strategy
from refimpl.server import ReducedGradient
from refimpl.strategies.allgather import GatheredRowsExchange
from refimpl.strategies.exchange import DenseReplicas

PLACE = np.dtype(np.int32)


@dataclass(frozen=True)
class GatheredElements(Strategy):
    """The strategy in a plan. It has only a codec: all ranks keep the variable."""

    name, sparse, automatic, only_encoded = "elements", False, False, True
    label, colour, mark = "elements to all (allgather)", "orange", "d"
    keys = (("allgather", "indices"), ("allgather", "rows"))

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        """4 for each index and each value of a rank's nodes, to each other rank; and 8 for the length of each node.

        touched: the indices of each node, as the rows of a sparse variable; if unknown, the most that are possible.
        """
        found, others = {}, 1 - np.eye(plan.ranks, dtype=np.int64)
        nodes = [cover(leaves_of(r, plan.ranks, plan.microbatches)) for r in range(plan.ranks)]
        for variable, strategy in placed:
            n, (_, pushed) = math.prod(variable.shape), touched(variable)
            k = strategy.coding.count(n)
            sent = [sum(map(len, of)) for of in pushed] or [
                sum(min(n, k << node.level, k * (plan.microbatches - node.first_leaf)) for node in of) for of in nodes]
            for kind, each in (("indices", PLACE.itemsize), ("rows", np.dtype(variable.dtype).itemsize)):
                found["allgather", variable.name, kind] = each * np.array(sent)[:, None] * others
        return found | {("allgather", "", "control"): INDEX * max(map(len, nodes)) * len(placed) * others}


class GatheredElementsExchange(DenseReplicas, GatheredRowsExchange, of=GatheredElements):
    """Dense variables by the elements that a codec picks. Collective to use; see ``strategies.exchange.Exchange``.

    It needs arrays on the host: see ``plan.codecs.check_codecs``.
    """

    index = PLACE

    def __init__(self, placed, plan, comm, seed, xp, shared):
        super().__init__(placed, plan, comm, seed)
        leaves = [leaves_of(r, comm.size, plan.microbatches) for r in range(comm.size)]
        self.gradients = ElementTree(self.variables, self.codec, leaves[comm.rank], lambda: self.step,
                                     plan.microbatches)
        self.nodes = list(map(cover, leaves))

    def _room(self, name, rows):
        return RowGradient(np.empty(rows, self.index), np.empty((rows, 1), np.float32))

    def _reduced(self, shard, total):
        whole = np.zeros(shard.values.size, np.float32)
        whole[total.ids] = total.rows[:, 0]
        return ReducedGradient(shard, None, whole.reshape(shard.values.shape), self.comm.rank == 0)
