"""A consistency limits how old the values are from which a worker computes its gradients.

It decides when an owner answers a pull, and when the owner applies a push. N is the number of workers.

    asynchronous   answer each pull immediately; apply each push immediately
    bounded:S      answer a pull when the slowest worker is at most S steps behind this one; apply each push immediately
    snapshot:S     the same pulls as bounded:S; when all N pushes of a step are there, apply them in worker order
    softsync:n     answer each pull immediately; apply the mean of every N / n pushes, about n updates stale
    backup:B       apply the mean of the first N - B pushes of each step; later pushes of this step are dropped
    synchronous    backup:0

A consistency uses only what its owner has seen: ``workers`` is N, ``clocks[w]`` is the number of pushes from worker w,
``version`` is the number of updates done, and ``seen[w]`` is the version that worker w pulled last (-1 before its first
pull). So the order in which pulls and pushes arrived at an owner determines everything that the owner does.
"""

import math


class Asynchronous:
    """No worker waits for another. steps: the number of steps that each worker does."""

    def __init__(self, workers, steps, number=0):
        self.workers, self.steps, self.number, self.held = workers, steps, number, []

    def over(self, owner, worker):
        """Return whether this worker has done its last step."""
        return owner.clocks[worker] >= self.steps

    def answers(self, owner, worker):
        """Return whether this worker's pull may be answered now. Otherwise the pull waits."""
        return True

    def arrived(self, owner, push):
        """Return the updates to do after this push: lists of pushes, in worker order. An update applies their mean."""
        return [[push]]


class Bounded(Asynchronous):
    """Stale synchronous parallel: a worker continues if its clock - the slowest clock <= S."""

    def answers(self, owner, worker):
        """Return whether the slowest worker is at most S steps behind this one."""
        return owner.clocks[worker] - min(owner.clocks) <= self.number


class Snapshot(Bounded):
    """bounded:S, but each pull sees the same number of pushes from every worker: whole steps."""

    def arrived(self, owner, push):
        """Return one update for each worker as soon as all workers have pushed for the oldest step."""
        self.held.append(push)
        # min(clocks) steps are complete: every worker has pushed for each of them
        done = [p for p in self.held if p.clock < min(owner.clocks)]
        self.held = [p for p in self.held if p.clock >= min(owner.clocks)]
        return [[p] for p in sorted(done, key=lambda p: p.worker)]


class Softsync(Asynchronous):
    """n-softsync: an update waits for N / n pushes from any workers. Fewer pushes left at the end are not applied."""

    def arrived(self, owner, push):
        """Return one update, of every N // n pushes."""
        self.held.append(push)
        if len(self.held) < self.workers // self.number:
            return []
        full, self.held = self.held, []
        return [sorted(full, key=lambda p: p.worker)]  # stable: pushes of one worker stay in order of arrival


class Backup(Asynchronous):
    """B of the N workers may be late at a step. Each owner decides by itself which workers are late.

    steps: the steps of the training. A late worker's push is dropped, so the worker contributes to fewer steps.
    """

    def over(self, owner, worker):
        """Return whether the last update has been done."""
        return owner.version >= self.steps

    def answers(self, owner, worker):
        """Return whether there are values that this worker has not pulled yet."""
        return owner.seen[worker] < owner.version

    def arrived(self, owner, push):
        """Return one update when N - B pushes of this step have arrived. A later push of this step is dropped."""
        if push.version == owner.version < self.steps:  # computed from the newest values, so it is not late
            self.held.append(push)
        if len(self.held) < self.workers - self.number:
            return []
        first, self.held = self.held, []
        return [sorted(first, key=lambda p: p.worker)]


CONSISTENCIES = {"synchronous": (Backup, ""), "asynchronous": (Asynchronous, ""), "bounded": (Bounded, ":S"),
                 "snapshot": (Snapshot, ":S"), "softsync": (Softsync, ":n"), "backup": (Backup, ":B")}
"""Name -> (class, parameter)."""

DECENTRALISED = {"easgd": ":PERIOD", "gossip": "", "local": ":E"}
"""The ways to train without a server (``decentralised``): name -> parameter."""


def is_decentralised(text):
    """Return whether ``text``, for instance "local:4", is a way to train without a server."""
    return text.partition(":")[0] in DECENTRALISED


def consistency(text, workers, steps):
    """Return a new consistency for one owner. text: for instance "bounded:2". Raises ValueError for another text."""
    name, colon, number = text.partition(":")
    kind, takes = CONSISTENCIES.get(name, (None, ""))
    if kind is None or bool(colon) != bool(takes):
        known = ", ".join(each + parameter for each, (_, parameter) in CONSISTENCIES.items())
        others = ", ".join(each + parameter for each, parameter in DECENTRALISED.items())
        raise ValueError(f"no consistency is called {text!r}: write one of {known}; or, without a server, {others}")
    least, most = {"softsync": (1, workers), "backup": (0, workers - 1)}.get(name, (0, math.inf))
    if takes and not (number.isdecimal() and least <= int(number) <= most):
        to = "on" if most == math.inf else f"to {most}, with {workers} workers"
        raise ValueError(f"{text}: {takes[1:]} must be a whole number, from {least} {to}")
    return kind(workers, steps, int(number or 0))
