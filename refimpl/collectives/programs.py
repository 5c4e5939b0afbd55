"""Check that ranks which run their own programs never deadlock. It matches sends with receives, without buffers."""

from collections import defaultdict, deque

from refimpl.collectives.prove import ScheduleError
from refimpl.collectives.schedule import Round


class _Job:
    """Ranks at their rounds. waiting[rank]: the transfers of its round that have no partner yet."""

    def __init__(self, programs, name):
        self.programs, self.name = programs, name
        self.position = [-1] * len(programs)
        self.waiting = [[] for _ in programs]
        self.posted = defaultdict(deque)  # (source, destination) -> transfers that one end has posted
        self.ready = deque(range(len(programs)))

    def enter_next_round(self, rank):
        self.position[rank] += 1
        if self.position[rank] < len(self.programs[rank]):
            transfers = self.programs[rank][self.position[rank]].transfers
            self.waiting[rank] = list(transfers)
            for t in transfers:
                self._post(rank, t)
            if not transfers:
                self.ready.append(rank)

    def _post(self, rank, mine):
        link = self.posted[mine.source, mine.destination]
        if not link or link[0][0] == rank:
            link.append((rank, mine))
            return
        peer, theirs = link.popleft()
        if (mine.start, mine.stop) != (theirs.start, theirs.stop):
            sent, wanted = (mine, theirs) if rank == mine.source else (theirs, mine)
            raise ScheduleError(f"{self.name}: round {self.position[rank]} of rank {rank}: rank {mine.source} sends "
                                f"chunks {_span(sent)}, rank {mine.destination} receives chunks {_span(wanted)}")
        for end, transfer in ((rank, mine), (peer, theirs)):
            self.waiting[end].remove(transfer)
            if not self.waiting[end]:
                self.ready.append(end)


def check_programs(programs: list[tuple[Round, ...]], name: str = "programs") -> None:
    """Raise ScheduleError if ranks wait for ever, or if a message has other chunks than its receiver expects. Local.

    programs[r]: the rounds of rank r, as ``Schedule.programs`` gives them and as a rank runs them over MPI: it posts
    all receives and sends of a round, and waits for all. A send may wait until its receive is posted (MPI promises no
    more), and messages between two ranks are matched in the order in which they were posted.
    """
    job = _Job(programs, name)
    while job.ready:
        job.enter_next_round(job.ready.popleft())
    stuck = [f"rank {rank} in its round {job.position[rank]} {_what(rank, job.waiting[rank][0])}"
             for rank in range(len(programs)) if job.waiting[rank]]
    if stuck:
        raise ScheduleError(f"{name}: deadlock: " + "; ".join(stuck))


def _span(transfer) -> str:
    return f"[{transfer.start}, {transfer.stop})"


def _what(rank, t) -> str:
    return f"sends chunks {_span(t)} to rank {t.destination}" if rank == t.source else \
        f"waits for chunks {_span(t)} of rank {t.source}"
