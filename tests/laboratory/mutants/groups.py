"""Bugs of owners without barriers, meshes and codecs: the deviations that the suite knows, two as NumPy makes them."""

import numpy as np

from mutants.mutant import Mutant
from refimpl.conformance.adapters.reference import Reference
from refimpl.conformance.space import codecs, mesh, owner
from refimpl.conformance.space.deviation import code_of, words_of
from refimpl.plain.without_barriers.owner import Owner


def serving(bug: type) -> type:
    """Return the reference adapter with another owner."""
    return type(bug.__name__, (Reference,), {"owner": bug})


def stepping(bug: type, **how) -> type:
    """Return the reference adapter with other groups. how: attributes of the bug."""
    return type(bug.__name__, (Reference,), {"mesh": type(bug.__name__, (bug,), how)})


def encoding(bug: type) -> type:
    """Return the reference adapter with other steps of encoded gradients."""
    return type(bug.__name__, (Reference,), {"encoded": bug})


class AliasedDense(Owner):
    """Rows picked by an index array are a copy, a whole array is not."""

    def remembered(self, v, at):
        return self.values[v.name][at]


class UnpulledTaken(Owner):
    """Rows that the worker did not pull are corrected against current values: by nothing."""

    def old(self, v, push, at):
        known = np.isin(at, push.pulled[v.name][0]) if v.sparse else np.True_
        if known.all():
            return super().old(v, push, at)
        then, updates = np.array(self.values[v.name][at]), np.array(self.updates[v.name][at])
        then[known], updates[known] = super().old(v, push, at[known])
        return then, updates


def known(kind: type, number: int, make: type, of: str, *more) -> Mutant:
    """Return a deviation as a mutant. make: the adapter.  of: owner, mesh or codec.  more: other codes that name it."""
    return Mutant(number, words_of(kind).partition(":")[0], (code_of(kind), *more), make, of)


OWNERS = (*(known(kind, number, serving(kind), "owner") for kind, number in owner.KINDS.items() if number),
          Mutant(37, "the old value of a dense delta is an alias", ("aliased",), serving(AliasedDense), "owner"),
          Mutant(43, "rows never pulled are corrected", ("unpulled-rows",), serving(UnpulledTaken), "owner"))
IN_REVERSE, ALIKE = (mesh.RoundsOutOfOrder, mesh.ColumnsOutOfOrder), {mesh.NormPartsGTimes: ("norm-parts-k-times",)}
MESHES = (*(known(kind, number, stepping(kind, **({"shift": 0} if kind in IN_REVERSE else {})), "mesh",
                  *ALIKE.get(kind, ())) for kind, number in mesh.KINDS.items()),
          Mutant(48, "a member's own columns come first", ("columns-out-of-order",),
                 stepping(mesh.ColumnsOutOfOrder, shift=None), "mesh"))
CODECS = tuple(known(kind, number, encoding(kind), "codec") for kind, number in codecs.KINDS.items())
