"""Some ranks of a communicator, numbered from 0 on, for a schedule of only these ranks."""

from refimpl.transport.exchange import ArrayExchange
from refimpl.transport.protocol import Transport


class SomeRanks:
    """The part of a communicator's interface that schedules use. The constructor is local.

    Messages, ledger and time-outs are those of ``comm``, and errors use its rank numbers.
    ranks: of ``comm``, rising; this one is among them.
    """

    def __init__(self, comm: ArrayExchange, ranks):
        self.comm, self.ranks = comm, tuple(ranks)
        self.rank, self.size, self.ledger = self.ranks.index(comm.rank), len(self.ranks), comm.ledger
        number = {rank: i for i, rank in enumerate(self.ranks)}
        machines = (tuple(number[r] for r in machine if r in number) for machine in comm.machines)
        self.machines = tuple(machine for machine in machines if machine)
        self.machine = next(machine for machine in self.machines if self.rank in machine)

    def transport_of(self, array) -> "Renumbered":
        """Return the transport of arrays like this one between these ranks. Local."""
        return Renumbered(self.comm.transport_of(array), self.ranks)


class Renumbered:
    """Prepared messages of a transport. A peer is an index into ``ranks``. The constructor is local."""

    def __init__(self, transport: Transport, ranks):
        self.transport, self.ranks = transport, ranks

    def prepare(self, sends, receives, what: str, lane: int = 0):
        there = [[(self.ranks[peer], array) for peer, array in some] for some in (sends, receives)]
        return self.transport.prepare(*there, what, lane)

    def wait_some(self, started: list) -> list:
        return self.transport.wait_some(started)

    def test_some(self, started: list) -> list:
        return self.transport.test_some(started)
