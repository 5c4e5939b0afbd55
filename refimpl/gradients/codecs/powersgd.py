"""Equals ``plain.power_sgd``: a gradient matrix as the product of two thin ones. 4 r m and 4 r n bytes, by two
allreduces.

    M_v = G_v + e_v       P = Σ M_v Q       P = orthonormal(P)       Q = Σ M_vᵀ P       decoded: P Qᵀ

Both sums are added in tree order. e_v = M_v - P Pᵀ M_v belongs to (variable, microbatch), and Q, with which the next
step begins, to the variable.
"""

import math
from dataclasses import dataclass

import numpy as np

from refimpl.gradients.codecs.codec import Codec

MOST_RANKS = 64


@dataclass(frozen=True)
class PowerSGD(Codec):
    """r: columns of P and Q."""

    name, feedback, by_tree, strategy, form = "powersgd", True, True, "low-rank", "powersgd:R"

    r: int = 2

    @classmethod
    def of(cls, parameter):
        return cls(cls.whole(parameter, MOST_RANKS, f"a rank from 1 to {MOST_RANKS}, e.g. powersgd:2"))

    def check(self, variable, microbatches):
        self.check_dense(variable)
        if not self.fits(variable):
            m, n = self.matrix(variable)
            raise ValueError(f"{self.name}:{self.r} sends {self.r * (m + n)} numbers for {variable.name!r}, which has "
                             f"{m * n}: leave it out, or say bf16")

    @staticmethod
    def matrix(variable) -> tuple[int, int]:
        """Return (m, n): the last axis of a variable, and all others as one."""
        return math.prod(variable.shape[:-1]), variable.shape[-1] if variable.shape else 1

    def fits(self, variable):
        m, n = self.matrix(variable)
        return self.r * (m + n) < m * n

    @staticmethod
    def orthonormal(p):
        """Return an orthonormal basis of the columns, see ``plain.power_sgd.orthonormal``. p: (m, r) float32."""
        p = p.astype(np.float64)
        for i in range(p.shape[1]):
            before, length = p[:, :i], np.sqrt(np.sum(p[:, i] ** 2))
            for _ in range(2):  # once is not enough in floating point
                p[:, i] -= before @ (before.T @ p[:, i])
            left = np.sqrt(np.sum(p[:, i] ** 2))
            p[:, i] = p[:, i] / left if left > 1e-6 * length else 0
        return p.astype(np.float32)
