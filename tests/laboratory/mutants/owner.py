"""Bugs of owners without barriers, planted in copies of the reference's. Each class is one bug, nothing else."""

import numpy as np

from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.adapters.reference_owner import ReferenceOwner


def serving(bug: type) -> type:
    """Return the reference adapter with another owner."""
    return type(bug.__name__, (Reference,), {"owner": bug})


@serving
class AliasedOld(ReferenceOwner):
    def then(self, name, at):
        return self.values[name] if at is ... else _Rows(self.values[name], at)


@serving
class AliasedDense(ReferenceOwner):
    """What NumPy does unasked: rows picked by an index array are a copy, a whole array is not."""

    def then(self, name, at):
        return self.values[name][at]


class _Rows:
    """Rows of an array, read when they are used."""

    def __init__(self, array, at):
        self.array, self.at = array, at

    def __getitem__(self, place):
        return self.array[self.at[place]]

    def __array__(self, dtype=None, copy=None):
        return np.array(self.array[self.at], dtype)


@serving
class StaleDropped(ReferenceOwner):
    def counts(self, push):
        return push.version == self.version


@serving
class LateCounted(ReferenceOwner):
    def counts(self, push):
        return True


@serving
class ClockEarly(ReferenceOwner):
    def slack(self):
        return self.number - 1


@serving
class ClockLate(ReferenceOwner):
    def slack(self):
        return self.number + 1


@serving
class StalenessPerWorker(ReferenceOwner):
    def staleness(self, name, push, at, updates):
        return self.version - push.version


@serving
class NotRescaled(ReferenceOwner):
    def divisor(self, pushes):
        return self.task.workers


@serving
class Summed(ReferenceOwner):
    def divisor(self, pushes):
        return 1


@serving
class UnpulledTaken(ReferenceOwner):
    """Rows that the worker did not pull are corrected against current values: by nothing."""

    def old(self, name, push, at):
        pulled = push.old[name][0]
        if at is ... or np.isin(at, pulled).all():
            return super().old(name, push, at)
        then, updates = np.array(self.values[name][at]), np.array(self.updates[name][at])
        known = np.isin(at, pulled)
        then[known], updates[known] = super().old(name, push, at[known])
        return then, updates
