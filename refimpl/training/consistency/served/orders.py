"""In which order an owner deals with what has come: as the consistency allows, or as a record says."""

from typing import NamedTuple


class Came(NamedTuple):
    """What has come and is not dealt with yet, first come, first: worker -> what it asks for, worker -> what it pushes.
    """

    pulls: dict
    pushes: dict


class FirstCome:
    """A push is taken when it comes, a pull is answered as soon as the consistency allows."""

    def next(self, owner, came: Came) -> tuple[dict, int] | None:
        """Return which of ``came``, and of which worker, is dealt with next; None: nothing can be. Local."""
        for worker in came.pushes:
            return came.pushes, worker
        for worker in came.pulls:
            if owner.answers(worker):
                return came.pulls, worker
        return None


class Recorded:
    """The order of a record: it waits for what comes next in it. entries: workers' numbers."""

    def __init__(self, entries):
        self.entries = entries

    def next(self, owner, came: Came) -> tuple[dict, int] | None:
        """Return which of ``came``, and of which worker, is dealt with next; None: it has not come yet. Local."""
        at = len(owner.record)
        if at == len(self.entries):
            return None
        worker = int(self.entries[at])
        which = came.pushes if worker in owner.pulled else came.pulls
        return (which, worker) if worker in which else None
