"""Every byte is accounted for: what this rank sent and received, by phase, variable and kind (docs/design.md, I2)."""

from collections import defaultdict

KINDS = ("dense", "rows", "indices", "activations", "control")
AXES = {"phase": 0, "variable": 1, "kind": 2}


class Ledger:
    """Payload bytes. sent[phase, variable, kind] and received[...] count what the transport was given. Local.

    crossed_sent, crossed_received: the part of them that goes to, or comes from, ranks of other machines.
    read_in_place: phases without messages: ranks read the counted bytes in memory that they share.
    """

    def __init__(self):
        self.clear()

    def clear(self):
        """Forget all that was counted. Local."""
        self.sent, self.received = defaultdict(int), defaultdict(int)
        self.crossed_sent, self.crossed_received = defaultdict(int), defaultdict(int)
        self.read_in_place: set[str] = set()

    def count(self, direction: str, crosses: bool, phase: str, owners: dict, kind: str, itemsize: int):
        """Count one message. direction: "sent" or "received".  owners: variable -> its elements in the message."""
        whole, part = (self.sent, self.crossed_sent) if direction == "sent" else (self.received, self.crossed_received)
        for variable, elements in owners.items():
            key = phase, variable, kind
            whole[key] += elements * itemsize
            if crosses:
                part[key] += elements * itemsize

    def add(self, other: "Ledger"):
        """Add another ledger's counts, for an exchange that is the same each time."""
        self.read_in_place |= other.read_in_place
        for counts, more in ((self.sent, other.sent), (self.received, other.received),
                             (self.crossed_sent, other.crossed_sent), (self.crossed_received, other.crossed_received)):
            for key, count in more.items():
                counts[key] += count

    def total(self, direction: str = "sent", **wanted) -> int:
        """Return the bytes of a direction, such as ``total("sent", phase="pull")``.

        direction: sent, received, crossed_sent or crossed_received.  wanted: phase, variable, kind.
        """
        return sum(n for key, n in getattr(self, direction).items()
                   if all(key[AXES[k]] == v for k, v in wanted.items()))

    def by(self, axis: str) -> dict[str, int]:
        """Return the bytes sent by "phase", by "variable" or by "kind"."""
        result: dict[str, int] = {}
        for key, count in sorted(self.sent.items()):
            result[key[AXES[axis]]] = result.get(key[AXES[axis]], 0) + count
        return result
