"""The reference adapter: every function of the protocol in plain NumPy, for any manifest. An example to copy from.

A world has ``rank``, ``size`` and ``allgather``; here the ranks are threads. In float32 throughout, not optimised.
"""

from collections import Counter

import numpy as np

from refimpl.conformance.adapters.reference_training import TrainingPart
from refimpl.conformance.arrivals import play
from refimpl.conformance.case import Rows
from refimpl.conformance.cases.numbers import words
from refimpl.conformance.rules.owner import ScriptOwner, owner_of
from refimpl.conformance.semantics import DTYPES, SUPPORTS, Semantics
from refimpl.plain.mesh import Mesh
from refimpl.plain.owner import Owner
from refimpl.plain.rows import aggregate_rows, merge_rows
from refimpl.plain.tree import add_up

LAUNCHER = "local"
EVERYTHING = Semantics(name="reference", dtypes=DTYPES, supports=SUPPORTS, start="rank 0", fusion_bytes=256)


class Reference(TrainingPart):
    """One rank of an implementation that does exactly what its manifest says."""

    owner, mesh = Owner, Mesh

    def __init__(self, world, semantics: Semantics = EVERYTHING, turn: int = 0):
        """turn: where sums begin, for manifests that allow any order."""
        self.world, self.semantics, self.turn, self.sent = world, semantics, turn, []

    def describe(self) -> Semantics:
        """Return the manifest."""
        return self.semantics

    def aggregate_dense(self, arrays: dict) -> dict:
        """Return name -> aggregate; the arrays meet in fused buffers, in order of name."""
        everyone = self.present(arrays)
        arrays = everyone[self.world.rank]
        self.sent = [sum(arrays[name].nbytes for name in bucket) for bucket in self.buckets(arrays)]
        return self.finite({name: self.mean([ranks[name] for ranks in everyone]) for name in arrays})

    def present(self, gradients: dict) -> list[dict]:
        """Return every rank's gradients; what is None on a rank is 0 there, or no rows."""
        everyone = self.world.allgather(gradients)
        like = {name: next(g[name] for g in everyone if g[name] is not None) for name in gradients}
        nothing = {name: tuple(x[:0] for x in part) if isinstance(part, tuple) else np.zeros_like(part)
                   for name, part in like.items()}
        return [{name: nothing[name] if g[name] is None else g[name] for name in g} for g in everyone]

    def finite(self, aggregates: dict) -> dict:
        """Return aggregates; refuse what is not finite, where the manifest says so: all ranks see the same."""
        if self.semantics.nonfinite == "refuse":
            for name, part in aggregates.items():
                if not np.isfinite(part[1] if isinstance(part, tuple) else part).all():
                    raise ValueError(f"the aggregated gradient of {name} is not finite")
        return aggregates

    def buckets(self, arrays) -> list[list[str]]:
        """Return the names in each fused buffer: filled until the next array would be too much."""
        limit, found, used = self.semantics.fusion_bytes or 0, [], 0
        for name in sorted(arrays):
            if not found or used + arrays[name].nbytes > limit:
                found.append([])
                used = 0
            found[-1].append(name)
            used += arrays[name].nbytes
        return found

    def messages(self) -> list[int]:
        """Return the bytes of each fused message of the last aggregate_dense."""
        return self.sent

    def mean(self, arrays, divisor: int | None = None):
        """Return the sum of the arrays, or their average. divisor: None: as many as there are."""
        divisor = (len(arrays) if divisor is None else divisor) if self.semantics.dense == "average" else 1
        wide = "float32" if arrays[0].dtype == np.float16 else arrays[0].dtype  # a sum of halves may overflow
        with np.errstate(invalid="ignore", over="ignore"):
            if self.semantics.divide == "before":
                return self.fold([self.over(a.astype(wide), divisor) for a in arrays], np.add).astype(arrays[0].dtype)
            return self.over(self.fold([a.astype(wide) for a in arrays], np.add), divisor).astype(arrays[0].dtype)

    def over(self, array, divisor):
        """Return array / divisor, a number or one for each row."""
        return array / array.dtype.type(divisor)

    def fold(self, values, add):
        """Add values up: as a balanced tree, or one after the other from any of them on."""
        if self.semantics.order == "tree":
            return add_up(0, len(values), {(i, i + 1): value for i, value in enumerate(values)}, add)
        first = self.turn % len(values)
        total, *rest = values[first:] + values[:first]
        for value in rest:
            total = add(total, value)
        return total

    def aggregate_rows(self, gradients: dict, shapes: dict) -> dict:
        """Return name -> (ids, rows), ids rising, each once; or an array of a dense variable."""
        everyone = self.present(gradients)
        whole = self.finite({name: self.merge([self.leaf(*ranks[name]) for ranks in everyone]) if name in shapes
                             else self.mean([ranks[name] for ranks in everyone]) for name in gradients})
        return {name: self.own(part) if name in shapes else part for name, part in whole.items()}

    aggregate_all = aggregate_rows

    def own(self, merged):
        """Return the rows that this rank is to have."""
        ids, rows = merged
        if self.semantics.rows_on == "every":
            return merged
        mine = ids % self.world.size == self.world.rank
        return ids[mine], rows[mine]

    def merge(self, parts):
        """Return (ids, rows): all ranks' rows aggregated, wherever they lie."""
        counts, early = self.counts(parts), self.semantics.divide == "before"

        def divided(ids, rows):
            return self.over(rows, np.array([counts[k] for k in ids.tolist()])[:, None])

        with np.errstate(invalid="ignore", over="ignore"):
            leaves = [aggregate_rows(Rows, ids, divided(ids, rows) if early else rows) for ids, rows in parts]
            total = self.fold(leaves, merge_rows)
            return total.ids, total.rows if early else divided(total.ids, total.rows)

    def leaf(self, ids, rows):
        """Return one rank's rows, as they take part."""
        if self.semantics.duplicates == "add":
            return ids, rows
        unique, last = np.unique(ids[::-1], return_index=True)
        return unique, rows[::-1][last]

    def counts(self, parts) -> dict[int, int]:
        """Return id -> what its sum is divided by."""
        rule = self.semantics.sparse
        counts = Counter(k for ids, _ in parts for k in (ids if rule == "per-occurrence" else np.unique(ids)).tolist())
        if rule.startswith("per-"):
            return counts
        return dict.fromkeys(counts, self.world.size if rule == "average" else 1)

    def aggregate_uses(self, uses: dict, shapes: dict) -> dict:
        """Return name -> aggregate; uses: name -> the gradients of each place where a variable is read."""
        return self.aggregate_all({name: self.joined(parts) for name, parts in uses.items()}, shapes)

    def joined(self, parts):
        """Return the gradients of one variable's uses as one gradient."""
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(pieces) for pieces in zip(*parts))
        return sum(parts[1:], parts[0])

    def aggregate_group(self, arrays: dict, group: list[int]) -> dict:
        """Return name -> aggregate over the ranks of ``group``, {} on others."""
        everyone = self.world.allgather(arrays)
        if self.world.rank not in group:
            return {}
        return {name: self.mean([everyone[r][name] for r in group]) for name in arrays}

    def broadcast(self, arrays: dict, root: int) -> dict:
        """Return rank ``root``'s arrays."""
        return self.world.allgather(arrays)[root]

    def serve(self, arrivals) -> list:
        """Return, for each pull, (entries that came before it was answered, name -> values)."""
        return play(owner_of(self.owner, ScriptOwner)(arrivals, "float32"), arrivals.entries)

    def mesh_step(self, task) -> dict:
        """Return name -> this rank's part after one step of layers that groups share, and the loss."""
        return self.mesh(self.world, task).run()

    def reduce_loss(self, losses, gradients):
        """Return (loss, gradient) of a step. losses: (n,), gradients: (n, d), of this rank's examples."""
        mine = losses.sum(), gradients.sum(axis=0), len(losses)
        totals, sums, counts = zip(*self.world.allgather(mine))
        if self.semantics.loss == "mean-of-means":
            weights = [1 / (max(1, n) * self.world.size) for n in counts]
        else:
            weights = [1 / sum(counts) if self.semantics.loss == "global-mean" else 1.0] * len(counts)
        return np.asarray(sum(w * t for w, t in zip(weights, totals))), sum(w * s for w, s in zip(weights, sums))

    def sample(self, count: int, epoch: int):
        """Return the numbers of the examples that this rank sees in an epoch."""
        order = np.roll(np.arange(count), epoch)
        size = self.world.size
        if self.semantics.sampler == "pads":
            order = np.resize(order, -(-count // size) * size)
        elif self.semantics.sampler == "drops":
            order = order[:count // size * size]
        return order[self.world.rank::size]

    def draw(self, count: int, step: int):
        """Return (count,) random numbers in [0, 1) of this rank's and step's own."""
        return words(f"draw{step}.{self.world.rank}", count) / 2.0**64


for_world = Reference
