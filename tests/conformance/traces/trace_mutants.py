"""Wrong implementations: the peer with one classic bug each."""

import numpy as np
from trace_peer import Peer

from refimpl.conformance.case import Rows
from refimpl.conformance.semantics import Semantics


class RowsSwapped(Peer):
    def aggregate(self, v, step):
        g = super().aggregate(v, step)
        if v["name"] == "softmax_weight" and step == 1:
            g.rows[[2, 5]] = g.rows[[5, 2]]
        return g


class RowsTimesN(Peer):
    def aggregate(self, v, step):
        g = super().aggregate(v, step)
        return Rows(g.ids, g.rows * self.dtype(5)) if v["sparse"] else g


class RowsTripled(Peer):
    def aggregate(self, v, step):
        g = super().aggregate(v, step)
        return Rows(g.ids, g.rows * self.dtype(3)) if v["sparse"] else g


class RowsAveraged(Peer):
    def aggregate(self, v, step):
        g = super().aggregate(v, step)
        return Rows(g.ids, g.rows / self.dtype(5)) if v["sparse"] else g


class DividedByPushes(Peer):
    def aggregate(self, v, step):
        g = super().aggregate(v, step)
        if not v["sparse"]:
            return g
        counts = np.bincount(np.concatenate([p.ids for p in self.locals(v, step)]))[g.ids]
        return Rows(g.ids, g.rows / counts[:, None].astype(self.dtype))


class Dropped(Peer):
    def locals(self, v, step):
        parts = super().locals(v, step)
        return [p for m, p in enumerate(parts) if m != 1] if step == 1 else parts


class CountedTwice(Peer):
    def locals(self, v, step):
        parts = super().locals(v, step)
        return [parts[0], *parts[:2], *parts[3:]] if step == 1 else parts


class StaleSum(Peer):
    def aggregate(self, v, step):
        return super().aggregate(v, step - 1 if step == 2 and v["name"] == "lstm0/kernel" else step)


class RowsLost(Peer):
    def aggregate(self, v, step):
        g = super().aggregate(v, step)
        return Rows(g.ids[:-2], g.rows[:-2]) if v["name"] == "embedding" else g


class StaleState(Peer):
    def update(self, v, g, scale):
        before = {slot: a.copy() for slot, a in self.state[v["name"]].items()}
        super().update(v, g, scale)
        if self.step == 2:
            self.state[v["name"]] = before


class StateLost(Peer):
    def update(self, v, g, scale):
        if self.step == 2:
            for slot, array in self.state[v["name"]].items():
                array[...] = self.golden.get("start", None, v["name"], part=slot)
        super().update(v, g, scale)


class StaleParameters(Peer):
    def update(self, v, g, scale):
        before = self.values[v["name"]].copy()
        super().update(v, g, scale)
        if self.step == 1:
            self.values[v["name"]] = before


class NotClipped(Peer):
    def scales(self, total):
        return dict.fromkeys(total, self.dtype(1))


class ClippedByDense(Peer):
    def scales(self, total):
        return super().scales({n: g for n, g in total.items() if not isinstance(g, Rows)}) | dict.fromkeys(
            total, super().scales({n: g for n, g in total.items() if not isinstance(g, Rows)} or total)["lstm0/bias"])


class RateDoubled(Peer):
    def update(self, v, g, scale):
        self.training = {**self.golden.head["training"], "rate": 2.0 if self.step == 3 else 1.0}
        super().update(v, g, scale)


class StaleGradient(Peer):
    def update(self, v, g, scale):
        if self.step == 1:
            g = self.aggregate(v, 0)
        super().update(v, g, scale)


class OwnGradient(Peer):
    def scales(self, total):
        own = {v["name"]: self.locals(v, self.step)[2] for v in self.variables}
        return super().scales(own)

    def update(self, v, g, scale):
        super().update(v, self.locals(v, self.step)[2], scale)


class OneByOne(Peer):
    def scales(self, total):
        count = len(self.locals(self.variables[0], self.step))
        parts = [{v["name"]: self.locals(v, self.step)[m] for v in self.variables} for m in range(count)]
        scales = [super(OneByOne, self).scales(part) for part in parts]
        return {name: [s[name] for s in scales] for name in total}

    def update(self, v, g, scale):
        for part, own in zip(self.locals(v, self.step), scale):
            super().update(v, part, own)


class EveryRow(Peer):
    def update(self, v, g, scale):
        if v["sparse"]:
            whole = np.zeros(v["shape"], self.dtype)
            whole[g.ids] = g.rows
            g = Rows(np.arange(v["shape"][0]), whole)
        super().update(v, g, scale)


class FalselyTree(Peer):
    semantics = Semantics(name="peer", dense="sum", sparse="sum", order="tree")


MUTANTS = {
    RowsSwapped: ("rows-swapped", "aggregated", 1), RowsTimesN: ("multiplied-by-n", "aggregated", 0),
    RowsTripled: ("scaled", "aggregated", 0),
    RowsAveraged: ("sparse=average", "aggregated", 0), DividedByPushes: ("sparse=per-row-count", "aggregated", 0),
    Dropped: ("rank-miscounted", "aggregated", 1), CountedTwice: ("rank-miscounted", "aggregated", 1),
    StaleSum: ("buffer-reused", "aggregated", 2), RowsLost: ("rows-lost", "aggregated", 0),
    StaleState: ("slots-not-kept", "state", 2), StateLost: ("state-lost", "state", 2),
    StaleParameters: ("half-applied", "parameters", 1), NotClipped: ("not-clipped", "state", 0),
    ClippedByDense: ("clip_norm=dense-scales-all", "state", 0), RateDoubled: ("rate-doubled", "parameters", 3),
    StaleGradient: ("gradient-stale", "state", 1), OwnGradient: ("one-rank-alone", "state", 0),
    OneByOne: ("one-by-one", "state", 0),
    FalselyTree: ("order=any", "aggregated", 0),
}
"""Class -> diagnosis, stage and step at which it differs first."""
