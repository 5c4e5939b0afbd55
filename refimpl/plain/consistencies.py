"""How old the values may be that a worker computes with: when an owner answers a pull, and what becomes of a push.

    asynchronous   answer at once; apply each push as it comes
    bounded:S      a worker waits until the slowest is at most S steps behind it; apply each push as it comes
    snapshot:S     bounded:S, but a step's pushes are applied together, in worker order: reads see whole steps
    softsync:n     answer at once; apply the mean of every N / n pushes: they are about n updates old
    backup:B       a step is the mean of the first N - B pushes; who comes later is dropped, and joins the next step
    synchronous    backup:0

A consistency decides by what its owner has seen, and by nothing else: ``workers``, N; ``clocks[w]``, the pushes of
worker w that came; ``version``, the updates done; ``seen[w]``, the version that w pulled last, -1 before. So the order
in which an owner dealt with its workers says all there is to say.
"""

import math


class Asynchronous:
    """Nobody waits for anybody. steps: how many each worker does."""

    def __init__(self, workers, steps, number=0):
        self.workers, self.steps, self.number, self.held = workers, steps, number, []

    def over(self, owner, worker):
        """Return whether a worker has done its last step."""
        return owner.clocks[worker] >= self.steps

    def answers(self, owner, worker):
        """Return whether a worker's pull may be answered now. A pull that may not waits."""
        return True

    def arrived(self, owner, push):
        """Return the updates that a push brings about, each the pushes whose mean it applies, in worker order."""
        return [[push]]


class Bounded(Asynchronous):
    """Stale synchronous parallel: clock - slowest clock <= S, for each worker that goes on."""

    def answers(self, owner, worker):
        """Return whether the slowest worker is at most S steps behind this one."""
        return owner.clocks[worker] - min(owner.clocks) <= self.number


class Snapshot(Bounded):
    """bounded:S whose reads see whole steps: of every worker the same number of pushes."""

    def arrived(self, owner, push):
        """Return, when all workers have pushed for the oldest step, an update for each of them."""
        self.held.append(push)
        done = [p for p in self.held if p.clock < min(owner.clocks)]
        self.held = [p for p in self.held if p.clock >= min(owner.clocks)]
        return [[p] for p in sorted(done, key=lambda p: p.worker)]


class Softsync(Asynchronous):
    """n-softsync: an update waits for N / n pushes, whosoever; what is left over at the end is not applied."""

    def arrived(self, owner, push):
        """Return one update, of every N // n pushes."""
        self.held.append(push)
        if len(self.held) < self.workers // self.number:
            return []
        full, self.held = self.held, []
        return [sorted(full, key=lambda p: p.worker)]  # two of one worker stay in the order of their coming


class Backup(Asynchronous):
    """B of the N workers may come late; several owners decide, each for itself, who does.

    steps: of the training. A worker that is late at a step does fewer of its own.
    """

    def over(self, owner, worker):
        """Return whether the last update has been done."""
        return owner.version >= self.steps

    def answers(self, owner, worker):
        """Return whether there are values that this worker has not pulled."""
        return owner.seen[worker] < owner.version

    def arrived(self, owner, push):
        """Return one update when N - B pushes of this step are here; none for a late one, which is dropped."""
        if push.version == owner.version < self.steps:
            self.held.append(push)
        if len(self.held) < self.workers - self.number:
            return []
        first, self.held = self.held, []
        return [sorted(first, key=lambda p: p.worker)]


CONSISTENCIES = {"synchronous": (Backup, "", 0, 0), "asynchronous": (Asynchronous, "", 0, 0),
                 "bounded": (Bounded, ":S", 0, math.inf), "snapshot": (Snapshot, ":S", 0, math.inf),
                 "softsync": (Softsync, ":n", 1, 0), "backup": (Backup, ":B", 0, -1)}
"""Name -> (class, its parameter, the smallest it may be, the largest minus N)."""

DECENTRALISED = {"easgd": ":PERIOD", "gossip": "", "local": ":E"}
"""Those that need no owner, see ``decentralised``: name -> what follows it."""


def is_decentralised(text):
    """Return whether "gossip", for one, is among these."""
    return text.partition(":")[0] in DECENTRALISED


def consistency(text, workers, steps):
    """Return a new consistency, for one owner, as "bounded:2" says it. Raises ValueError, with what to write."""
    name, colon, number = text.partition(":")
    kind, takes, least, most = CONSISTENCIES.get(name, (None, "", 0, 0))
    if kind is None or bool(colon) != bool(takes):
        known = ", ".join(name + takes for name, (_, takes, *_) in CONSISTENCIES.items())
        others = ", ".join(name + takes for name, takes in DECENTRALISED.items())
        raise ValueError(f"no consistency is called {text!r}: write one of {known}; or, without a server, {others}")
    if takes and not (number.isdecimal() and least <= int(number) <= most + workers):
        to = "on" if most == math.inf else f"to {most + workers}, with {workers} workers"
        raise ValueError(f"{text}: {takes[1:]} must be a whole number, from {least} {to}")
    return kind(workers, steps, int(number or 0))
