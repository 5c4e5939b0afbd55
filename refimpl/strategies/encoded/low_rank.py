"""Strategy "low-rank" of dense variables: every rank has a replica; two allreduces sum one thin matrix each.

    bytes in and out of a rank: 16 r (m + n) (N - 1) / N for a matrix (m, n)

The codec ``powersgd`` chooses it in every architecture. Plain: ``refimpl.plain.encoding.power_sgd``.
"""

from dataclasses import dataclass

import numpy as np

from kernels.random import key_of, uniform
from refimpl.collectives.running.allreduce import open_allreduce
from refimpl.gradients import Arena, DenseTree, Layout, leaves_of
from refimpl.gradients.residuals import WaitingTree
from refimpl.plain.encoding.power_sgd import orthonormal
from refimpl.plan.strategy import Strategy
from refimpl.server import ReducedGradient
from refimpl.strategies.allreduce import allreduce_bytes
from refimpl.strategies.exchange import DenseReplicas


@dataclass(frozen=True)
class LowRank(Strategy):
    """The strategy in a plan. It has only a codec: all ranks keep the variable."""

    name, sparse, automatic, only_encoded = "low-rank", False, False, True
    label, colour, mark = "two thin matrices (allreduce)", "green", "P"
    keys = (("allreduce", "dense"),)

    @classmethod
    def thin(cls, variables, codec) -> tuple[Layout, Layout]:
        """Return the layouts of P, (m, r) each, and of Q, (n, r) each. Local."""
        names, shapes = tuple(v.name for v in variables), [codec.matrix(v) for v in variables]
        return tuple(Layout(names, tuple((shape[side], codec.r) for shape in shapes), "float32") for side in (0, 1))

    @classmethod
    def bytes_between(cls, placed, plan, touched):
        first, second = (allreduce_bytes(layout, plan.schedule())
                         for layout in cls.thin([variable for variable, _ in placed], placed[0][1].coding))
        return {key: sum(found[key] for found in (first, second) if key in found) for key in {**first, **second}}


class LowRankExchange(DenseReplicas, of=LowRank):
    """Dense variables by thin matrices. Collective to use; see ``strategies.exchange.Exchange``.

    q: name -> (n, r), the next step's first Q.  It needs arrays on the host: see ``plan.codecs.check_codecs``.
    """

    phase = "allreduce"

    def __init__(self, placed, plan, comm, seed, xp, shared):
        super().__init__(placed, plan, comm, seed, shared=shared)
        self.schedule, self.layouts = plan.schedule(), LowRank.thin(self.variables, self.codec)
        self.gradients = WaitingTree(self.variables, leaves_of(comm.rank, comm.size, plan.microbatches))
        self.q = {name: (uniform(key_of(seed, "power sgd", name), n * r) - 0.5).astype(np.float32).reshape(n, r)
                  for name, (n, r) in zip(self.layouts[1].names, self.layouts[1].shapes)}

    def open(self):
        self.sums = []
        for layout in self.layouts:
            run = open_allreduce(self.schedule, self.comm, layout.size, np.empty(0, np.float32), "allreduce",
                                 layout.overlaps, self.shared, self.channel)
            homes = {node.first_leaf: Arena(layout, flat=slot)
                     for node, slot in zip(self.schedule.inputs[self.comm.rank], run.slots)}
            self.sums.append((run, DenseTree(layout, np, homes)))

    def common(self):
        return self.q

    def push(self):
        waiting = [(leaf, {v.name: self.gradients.left_out[v.name, leaf].reshape(self.codec.matrix(v))
                           for v in self.variables}) for leaf in self.gradients.take()]
        p = {name: orthonormal(total) for name, total in self._sum(
            0, [(leaf, {name: m @ self.q[name] for name, m in of.items()}) for leaf, of in waiting]).items()}
        thin = self._sum(1, [(leaf, {name: m.T @ p[name] for name, m in of.items()}) for leaf, of in waiting])
        for name, total in thin.items():
            self.q[name][...] = total
        for _, of in waiting:
            for name, m in of.items():
                m[...] = m - p[name] @ (p[name].T @ m)
        return [ReducedGradient(self.shards[v.name], None, (p[v.name] @ self.q[v.name].T).reshape(v.shape),
                                self.comm.rank == 0) for v in self.variables]

    def _sum(self, which, leaves) -> dict:
        """Return name -> the sum over all ranks of the leaves. Collective."""
        run, tree = self.sums[which]
        for leaf, arrays in leaves:
            tree.push(leaf, arrays)
        tree.take()
        return Arena(tree.layout, flat=run()).views
