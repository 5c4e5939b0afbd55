"""Wrong implementations: the peer with one classic bug each."""

from dataclasses import replace

import numpy as np
from mutants.mutant import with_methods
from trace_peer import Peer

from refimpl.conformance.case import Rows


def peer(**methods) -> type:
    """Return the peer with other methods: each is wrong(self, right, *arguments), right the one it had."""
    return with_methods(Peer, methods)


def _rows_swapped(self, right, v, step):
    g = right(v, step)
    if v["name"] == "softmax_weight" and step == 1:
        g.rows[[2, 5]] = g.rows[[5, 2]]
    return g


def _rows_times(factor):
    """Multiply sums of rows."""
    def aggregate(self, right, v, step):
        g = right(v, step)
        return Rows(g.ids, g.rows * self.dtype(factor)) if v["sparse"] else g

    return peer(aggregate=aggregate)


def _divided_by_pushes(self, right, v, step):
    g = right(v, step)
    if not v["sparse"]:
        return g
    counts = np.bincount(np.concatenate([p.ids for p in self.locals(v, step)]))[g.ids]
    return Rows(g.ids, g.rows / counts[:, None].astype(self.dtype))


def _counting(*counted):
    """Count other microbatches than each once, in step 1."""
    def locals_(self, right, v, step):
        parts = right(v, step)
        return [parts[m] for m in counted] if step == 1 else parts

    return peer(locals=locals_)


def _rows_lost(self, right, v, step):
    g = right(v, step)
    return Rows(g.ids[:-2], g.rows[:-2]) if v["name"] == "embedding" else g


def _stale_state(self, right, v, g, scale):
    before = {slot: a.copy() for slot, a in self.state[v["name"]].items()}
    right(v, g, scale)
    if self.step == 2:
        self.state[v["name"]] = before


def _state_lost(self, right, v, g, scale):
    if self.step == 2:
        for slot, array in self.state[v["name"]].items():
            array[...] = self.golden.get("start", None, v["name"], part=slot)
    right(v, g, scale)


def _stale_parameters(self, right, v, g, scale):
    before = self.values[v["name"]].copy()
    right(v, g, scale)
    if self.step == 1:
        self.values[v["name"]] = before


def _clipped_by_dense(self, right, total):
    dense = right({n: g for n, g in total.items() if not isinstance(g, Rows)})
    return dict.fromkeys(total, next(iter(dense.values())))


def _rate_doubled(self, right, v, g, scale):
    self.training = {**self.golden.head["training"], "rate": 2.0 if self.step == 3 else 1.0}
    right(v, g, scale)


def _parts(self, m) -> dict:
    """Return name -> a microbatch's own gradient."""
    return {v["name"]: self.locals(v, self.step)[m] for v in self.variables}


class OneByOne(Peer):
    def scales(self, total):
        count = len(self.locals(self.variables[0], self.step))
        scales = [super(OneByOne, self).scales(_parts(self, m)) for m in range(count)]
        return {name: [s[name] for s in scales] for name in total}

    def update(self, v, g, scale):
        for part, own in zip(self.locals(v, self.step), scale):
            super().update(v, part, own)


def _every_row(self, right, v, g, scale):
    if v["sparse"]:
        whole = np.zeros(v["shape"], self.dtype)
        whole[g.ids] = g.rows
        g = Rows(np.arange(v["shape"][0]), whole)
    right(v, g, scale)


RowsSwapped, Dropped, CountedTwice = peer(aggregate=_rows_swapped), _counting(0, 2, 3, 4), _counting(0, 0, 1, 3, 4)
EveryRow = peer(update=_every_row)
MUTANTS = {
    "rows swapped": (RowsSwapped, "rows-swapped", "aggregated", 1),
    "rows times n": (_rows_times(5), "multiplied-by-n", "aggregated", 0),
    "rows tripled": (_rows_times(3), "scaled", "aggregated", 0),
    "rows averaged": (_rows_times(0.2), "sparse=average", "aggregated", 0),
    "divided by pushes": (peer(aggregate=_divided_by_pushes), "sparse=per-row-count", "aggregated", 0),
    "dropped": (Dropped, "rank-miscounted", "aggregated", 1),
    "counted twice": (CountedTwice, "rank-miscounted", "aggregated", 1),
    "stale sum": (peer(aggregate=lambda self, right, v, step: right(
        v, step - 1 if step == 2 and v["name"] == "lstm0/kernel" else step)), "buffer-reused", "aggregated", 2),
    "rows lost": (peer(aggregate=_rows_lost), "rows-lost", "aggregated", 0),
    "stale state": (peer(update=_stale_state), "slots-not-kept", "state", 2),
    "state lost": (peer(update=_state_lost), "state-lost", "state", 2),
    "stale parameters": (peer(update=_stale_parameters), "half-applied", "parameters", 1),
    "not clipped": (peer(scales=lambda self, right, total: dict.fromkeys(total, self.dtype(1))), "not-clipped", "state",
                    0),
    "clipped by dense": (peer(scales=_clipped_by_dense), "clip_norm=dense-scales-all", "state", 0),
    "rate doubled": (peer(update=_rate_doubled), "rate-doubled", "parameters", 3),
    "stale gradient": (peer(update=lambda self, right, v, g, scale: right(
        v, self.aggregate(v, 0) if self.step == 1 else g, scale)), "gradient-stale", "state", 1),
    "own gradient": (peer(scales=lambda self, right, total: right(_parts(self, 2)),
                          update=lambda self, right, v, g, scale: right(v, _parts(self, 2)[v["name"]], scale)),
                     "one-rank-alone", "state", 0),
    "one by one": (OneByOne, "one-by-one", "state", 0),
    "falsely tree": (type("FalselyTree", (Peer,), {"semantics": replace(Peer.semantics, order="tree")}), "order=any", "aggregated", 0),
}
"""Name -> class, and the diagnosis, stage and step at which it differs first."""
