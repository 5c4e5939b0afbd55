"""Bugs of owners without barriers: the deviations that the suite knows, and two as NumPy makes them unasked."""

import numpy as np

from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.space.owner import KINDS
from refimpl.plain.owner import Owner


def serving(bug: type) -> type:
    """Return the reference adapter with another owner."""
    return type(bug.__name__, (Reference,), {"owner": bug})


(StaleDropped, LateCounted, ClockEarly, ClockLate, NotRescaled, Summed, StalenessPerWorker, AliasedOld,
 Uncorrected) = map(serving, KINDS)


@serving
class AliasedDense(Owner):
    """Rows picked by an index array are a copy, a whole array is not."""

    def remembered(self, v, at):
        return self.values[v.name][at]


@serving
class UnpulledTaken(Owner):
    """Rows that the worker did not pull are corrected against current values: by nothing."""

    def old(self, v, push, at):
        known = np.isin(at, push.pulled[v.name][0]) if v.sparse else np.True_
        if known.all():
            return super().old(v, push, at)
        then, updates = np.array(self.values[v.name][at]), np.array(self.updates[v.name][at])
        then[known], updates[known] = super().old(v, push, at[known])
        return then, updates
