"""Every byte is accounted for: what this rank sent and received, by phase, variable and kind (docs/design.md, I2)."""

import threading
from collections import Counter, defaultdict, deque

KINDS = ("dense", "rows", "indices", "activations", "control")
AXES = {"phase": 0, "variable": 1, "kind": 2}
MOST_REPEATED = 1000
"""Counts of at most so many repeated exchanges wait until someone reads them: a short allreduce has no time to count.
"""


class Ledger:
    """Payload bytes. sent[phase, variable, kind] and received[...] count what the transport was given. Local.

    crossed_sent, crossed_received: the part of them that goes to, or comes from, ranks of other machines.
    read_in_place: phases without messages: ranks read the counted bytes in memory that they share.
    """

    sent, received, crossed_sent, crossed_received = (property(lambda self, i=i: self._counts()[i]) for i in range(4))

    def __init__(self):
        self._lock = threading.Lock()
        self.clear()

    def clear(self):
        """Forget all that was counted. Local."""
        self._repeated: deque[Ledger] = deque()
        self._four = tuple(defaultdict(int) for _ in range(4))
        self.read_in_place: set[str] = set()

    def count(self, direction: str, crosses: bool, phase: str, owners: dict, kind: str, itemsize: int):
        """Count one message. direction: "sent" or "received".  owners: variable -> its elements in the message."""
        whole, part = self._counts()[direction == "received"::2]
        for variable, elements in owners.items():
            key = phase, variable, kind
            whole[key] += elements * itemsize
            if crosses:
                part[key] += elements * itemsize

    def add(self, other: "Ledger"):
        """Add another ledger's counts."""
        self.read_in_place |= other.read_in_place
        _add(self._counts(), other)

    def repeat(self, other: "Ledger"):
        """Add the counts of an exchange that is the same each time. ``other`` must not change any more."""
        if other.read_in_place:
            self.read_in_place |= other.read_in_place
        self._repeated.append(other)
        if len(self._repeated) > MOST_REPEATED:
            self._counts()

    def _counts(self) -> tuple[defaultdict, ...]:
        """Return sent, received, crossed_sent and crossed_received, with all repeated exchanges."""
        if self._repeated:
            with self._lock:  # two threads may read
                repeated = Counter(self._repeated.popleft() for _ in range(len(self._repeated)))
                for other, times in repeated.items():
                    _add(self._four, other, times)
        return self._four

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


def _add(four, other: Ledger, times: int = 1):
    for counts, more in zip(four, other._counts()):
        for key, count in more.items():
            counts[key] += times * count
