"""Strategy "messages" of dense variables: every rank has a replica, and gets the message of each microbatch unchanged.

    bytes out of a rank: (N - 1) for each byte of its microbatches' messages, whose number and size never change

Codecs whose messages cannot be added (``onebit``, ``qsgd``, ``terngrad``) choose it in every architecture. Each rank
decodes all V messages and adds them in tree order. Plain: ``refimpl.plain.encoding.level_codecs``.
"""

import math
from dataclasses import dataclass
from operator import iadd

import numpy as np

from kernels.random import key_of
from refimpl.gradients import MessageTree, Node, TreeSum, leaves_of
from refimpl.plan.between import Between
from refimpl.plan.strategy import Strategy
from refimpl.server import ReducedGradient
from refimpl.strategies.exchange import DenseReplicas, in_stages


@dataclass(frozen=True)
class GatheredMessages(Strategy):
    """The strategy in a plan. It has only a codec: all ranks keep the variable."""

    name, sparse, automatic, only_encoded = "messages", False, False, True
    label, colour, mark = "each microbatch's message to all (allgather)", "orange", "v"
    keys = (("allgather", "dense"),)

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        """The bytes of the messages of a rank's microbatches, to each other rank."""
        count = np.array([len(leaves_of(r, plan.ranks, plan.microbatches)) for r in range(plan.ranks)])
        return {("allgather", v.name, "dense"):
                strategy.coding.message_bytes(math.prod(v.shape)) * Between.to_all(count) for v, strategy in placed}

    def work(self, variable, plan, sample):
        """The work of decoding V messages."""
        return np.full(plan.ranks, float(plan.microbatches * variable.nbytes))


class GatheredMessagesExchange(DenseReplicas, of=GatheredMessages):
    """Dense variables by the messages of all microbatches. Collective to use; see ``strategies.exchange.Exchange``.

    It needs arrays on the host: see ``plan.codecs.check_codecs``.
    """

    phase = "allgather"

    def __init__(self, placed, plan, comm, seed, xp, shared):
        super().__init__(placed, plan, comm, seed)
        self.leaves = [leaves_of(r, comm.size, plan.microbatches) for r in range(comm.size)]
        self.gradients = MessageTree(self.variables, self.codec, self.leaves[comm.rank],
                                     lambda name, leaf: key_of(seed, "codec", self.step, name, leaf))
        self.bytes = {v.name: self.codec.message_bytes(v.size) for v in self.variables}

    def push(self):
        taken = self.gradients.take()
        mine = np.stack(list(taken.values())) if taken else np.empty((0, self.gradients.size), np.uint8)
        arrived = [np.empty((len(leaves), self.gradients.size), np.uint8) for leaves in self.leaves]
        arrived[self.comm.rank] = mine

        def begin(to, source):
            there = arrived[source]
            return [self.comm.start([(to, mine, self._counts(mine))], [(source, there, self._counts(there))],
                                    "allgather", "dense")]

        in_stages(self.comm, begin)
        tree = TreeSum(lambda left, right: list(map(iadd, left, right)))
        for leaf, packed in ((leaf, p) for of, some in zip(self.leaves, arrived) for leaf, p in zip(of, some)):
            tree.push(Node(0, leaf), self.gradients.decode(packed))
        return [ReducedGradient(self.shards[v.name], None, total.reshape(v.shape), self.comm.rank == 0)
                for v, total in zip(self.variables, tree.total())]

    def _counts(self, messages):
        return {name: each * len(messages) for name, each in self.bytes.items()}
