"""The reference adapter: every function of the protocol in plain NumPy, for any manifest. An example to copy from.

A world has ``rank``, ``size`` and ``allgather``; here the ranks are threads. What a manifest means is in
``refimpl.plain``: ``sums``, ``updates``, ``owner``, ``mesh`` and ``encoded_steps``.
"""

import numpy as np

from refimpl.conformance.arrivals import play
from refimpl.conformance.cases.codecs import named
from refimpl.conformance.cases.numbers import words
from refimpl.conformance.semantics import DTYPES, SUPPORTS, Semantics
from refimpl.conformance.space.owner import ScriptOwner, owner_of
from refimpl.plain.adding.bags import Bags
from refimpl.plain.encoding.encoded_steps import EncodedSteps
from refimpl.plain.model_parallel.mesh import Mesh
from refimpl.plain.updating.updates import Updates
from refimpl.plain.without_barriers.owner import Owner

LAUNCHER = "local"
EVERYTHING = Semantics(name="reference", dtypes=DTYPES, supports=SUPPORTS, start="rank 0", fusion_bytes=256)


class Reference(Updates):
    """One rank of an implementation that does exactly what its manifest says."""

    owner, mesh, encoded = Owner, Mesh, EncodedSteps

    def __init__(self, world, semantics: Semantics = EVERYTHING, turn: int = 0):
        super().__init__(semantics, getattr(world, "size", None), turn)
        self.world, self.sent = world, []

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

    def aggregate_uses(self, uses: dict, shapes: dict) -> dict:
        """Return name -> aggregate; uses: name -> the gradients of each place where a variable is read."""
        return self.aggregate_all({name: self.joined(parts) for name, parts in uses.items()}, shapes)

    def joined(self, parts):
        """Return the gradients of one variable's uses as one gradient."""
        if isinstance(parts[0], tuple):
            return tuple(np.concatenate(pieces) for pieces in zip(*parts))
        return sum(parts[1:], parts[0])

    def aggregate_bags(self, bags: dict, shapes: dict, pooling, padding) -> dict:
        """Return name -> aggregate; bags: name -> (ids, offsets, gradients of the bags' outputs)."""
        return self.aggregate_all({name: Bags(pooling, padding).rows(*part) for name, part in bags.items()}, shapes)

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

    def encode_steps(self, task) -> list:
        """Return for each step name -> what units sent and kept back, the mean, and whether the step was left out."""
        return named(self.encoded(self.world, task).run())

    def reduce_loss(self, losses, gradients):
        """Return (loss, gradient) of a step. losses: (n,), gradients: (n, d), of this rank's examples."""
        dtype = self.semantics.loss_dtype
        own = losses.astype(dtype).sum(), gradients.astype(dtype).sum(axis=0), len(losses)
        totals, sums, counts = zip(*self.world.allgather(own))
        weights = self.weights(np.array(counts)).astype(dtype)
        return np.asarray(sum(w * t for w, t in zip(weights, totals))), sum(w * s for w, s in zip(weights, sums))

    def sample(self, count: int, epoch: int):
        """Return the numbers of the examples that this rank sees in an epoch."""
        order, size = np.roll(np.arange(count), epoch), self.world.size
        if self.semantics.sampler == "pads":
            order = np.resize(order, -(-count // size) * size)
        elif self.semantics.sampler == "drops":
            order = order[:count // size * size]
        return order[self.world.rank::size]

    def draw(self, count: int, step: int):
        """Return (count,) random numbers in [0, 1) of this rank's and step's own."""
        return words(f"draw{step}.{self.world.rank}", count) / 2.0**64


for_world = Reference
