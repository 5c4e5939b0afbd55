"""Equals ``plain.residuals.MomentumCorrection``: deep gradient compression, momentum before the choice of elements.

    u = m u + g     v += u     send v at the largest |v|     u = v = 0 there     8 k bytes
"""

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from refimpl.gradients.codecs.topk import TopK
from refimpl.plain.residuals import dgc_ratio


@dataclass(frozen=True)
class DGC(TopK):
    """steps: of each stage of the warm-up, in which 1/4, 1/16, 1/64, … of the elements are sent; 0: there is none."""

    name, form = "dgc", "dgc:RATIO:STEPS"
    kept, optimizer = 2, "sgd"
    momentum: ClassVar[float] = 0.9

    steps: int = 0

    @classmethod
    def of(cls, parameter):
        ratio, colon, steps = parameter.partition(":")
        if not 0 < cls.number(ratio) <= 1:
            raise ValueError(f"codec {cls.name}:{parameter[:20]}: give a ratio above 0 and up to 1, e.g. dgc:0.001, or "
                             "dgc:0.001:500 with a warm-up in stages of 500 steps")
        return cls(float(ratio), cls.whole(steps, 10**9, "a number of steps after the ratio, e.g. dgc:0.001:500")
                   if colon else 0)

    def at(self, step):
        return replace(self, ratio=dgc_ratio(self.ratio, step, self.steps))

    def add(self, kept, gradient):
        v, u = kept
        u *= np.float32(self.momentum)
        u += gradient
        v += u
        return v

    def drop(self, kept, places, sent):
        kept[:, places] = 0
