"""Equals ``plain.sparse_codecs.AdaComp``: in each bin, what would be its largest element after another such step.

    send v where |v + g| >= max |v| of the bin, if that is not 0: no ratio has to be chosen. 8 bytes each.
"""

from dataclasses import dataclass

import numpy as np

from refimpl.gradients.codecs.picked import Picked


@dataclass(frozen=True)
class AdaComp(Picked):
    """size: of a bin. The gradients decide how many elements a message has."""

    name, form, effort = "adacomp", "adacomp:BIN", 4.6

    size: int = 50

    @classmethod
    def of(cls, parameter):
        return cls(cls.whole(parameter, 10**8 - 1, "the elements of a bin, e.g. adacomp:50"))

    def places(self, values, gradient):
        if not len(values):
            return np.arange(0)
        largest = np.maximum.reduceat(np.abs(values), np.arange(0, len(values), self.size)).repeat(self.size)
        largest = largest[:len(values)]
        return np.flatnonzero((np.abs(values + gradient) >= largest) & (largest > 0))
