"""Allreduce algorithms as data: made by short generators, proved before they run, run over MPI."""

from refimpl.collectives.choose import ALGORITHMS, make_schedule
from refimpl.collectives.prove import Proof, ScheduleError, prove
from refimpl.collectives.run import run
from refimpl.collectives.schedule import Round, Schedule, Sum, Transfer
from refimpl.collectives.wire import CollectiveError, Ledger, Wire

__all__ = [
    "ALGORITHMS", "CollectiveError", "Ledger", "Proof", "Round", "Schedule", "ScheduleError", "Sum", "Transfer", "Wire",
    "make_schedule", "prove", "run",
]
