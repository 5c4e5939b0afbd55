"""Equals ``plain.encoding.sparse_codecs.Threshold`` (Strom): send τ, signed, for each element beyond τ. 8 bytes each.

    send τ or -τ where |v| > τ
"""

from dataclasses import dataclass

import numpy as np

from refimpl.gradients.codecs.picked import Picked


@dataclass(frozen=True)
class Threshold(Picked):
    """tau: τ. How many elements a message has depends on the gradients."""

    name, form, effort = "threshold", "threshold:TAU", 0.6

    tau: float = 0.001

    @classmethod
    def of(cls, parameter):
        if not 0 < (tau := cls.number(parameter)) < np.inf:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give a step above 0, e.g. threshold:0.001")
        return cls(tau)

    def places(self, values, gradient):
        return np.flatnonzero(np.abs(values) > np.float32(self.tau))

    def sent(self, values):
        return np.copysign(np.float32(self.tau), values)
