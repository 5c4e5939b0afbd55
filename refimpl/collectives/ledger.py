"""Every byte is accounted for: what this rank sent and received, by phase, variable and kind (DESIGN, I2)."""

from collections import defaultdict

KINDS = ("dense", "rows", "indices", "control")


class Ledger:
    """Payload bytes. sent[phase, variable, kind] and received[...] count what was handed to the transport. Local."""

    def __init__(self):
        self.clear()

    def clear(self):
        self.sent, self.received = defaultdict(int), defaultdict(int)

    def add(self, sent: dict, received: dict):
        """Count what was added up before: {(phase, variable, kind): bytes}, for what happens again and again alike."""
        for counter, counts in ((self.sent, sent), (self.received, received)):
            for key, count in counts.items():
                counter[key] += count

    def total(self, direction: str = "sent", **wanted) -> int:
        """Return the bytes ``sent`` or ``received`` whose phase, variable and kind are as wanted."""
        position = {"phase": 0, "variable": 1, "kind": 2}
        return sum(n for key, n in getattr(self, direction).items()
                   if all(key[position[k]] == v for k, v in wanted.items()))

    def by(self, *axes, direction: str = "sent") -> dict:
        """Return nested totals, e.g. by("phase", "kind") -> {phase: {kind: bytes}}."""
        position = {"phase": 0, "variable": 1, "kind": 2}
        result: dict = {}
        for key, count in sorted(getattr(self, direction).items()):
            level = result
            for axis in axes[:-1]:
                level = level.setdefault(key[position[axis]], {})
            last = key[position[axes[-1]]]
            level[last] = level.get(last, 0) + count
        return result
