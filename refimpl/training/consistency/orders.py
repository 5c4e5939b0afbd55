"""In which order an owner deals with what has come: as the consistency allows, or as a record says."""

from typing import NamedTuple

PULL, PUSH = "pull", "push"


class Came(NamedTuple):
    """What has come and is not dealt with yet, first come, first: worker -> what it asks for, worker -> what it pushes.
    """

    pulls: dict
    pushes: dict


class FirstCome:
    """A push is taken when it comes, a pull is answered as soon as the consistency allows."""

    def next(self, owner, came: Came) -> tuple[str, int] | None:
        """Return what the owner does next, and for which worker; None: nothing. Local."""
        for worker in came.pushes:
            return PUSH, worker
        for worker in came.pulls:
            if owner.answers(worker):
                return PULL, worker
        return None


class Recorded:
    """The order of a record: it waits for what comes next in it. entries: workers' numbers."""

    def __init__(self, entries):
        self.entries = entries

    def next(self, owner, came: Came) -> tuple[str, int] | None:
        """Return what the owner does next, and for which worker; None: nothing. Local."""
        at = len(owner.record)
        if at == len(self.entries):
            return None
        worker = int(self.entries[at])
        if worker in owner.pulled:
            return (PUSH, worker) if worker in came.pushes else None
        return (PULL, worker) if worker in came.pulls else None
