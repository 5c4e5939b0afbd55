"""Equals ``plain.encoding.power_sgd``: a matrix as the product of two thin ones. Two allreduces, 4 r (m + n) bytes.

    M_v = G_v + e_v       P = Σ M_v Q       P = orthonormal(P)       Q = Σ M_vᵀ P       decoded: P Qᵀ

Both sums are added in tree order. The residual e_v = M_v - P Pᵀ M_v belongs to (variable, microbatch). Q belongs to
the variable, and the next step begins with it.
"""

import math
from dataclasses import dataclass

from refimpl.gradients.codecs.codec import Codec

MOST_RANKS = 64


@dataclass(frozen=True)
class PowerSGD(Codec):
    """r: columns of P and Q."""

    name, feedback, by_tree, strategy, form, effort = "powersgd", True, True, "low-rank", "powersgd:R", 3.4

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
