"""Allreduce algorithms as data: generated, proved, drawn, simulated, and then run over a transport."""

from refimpl.collectives.choose import ALGORITHMS, HALVES, make_schedule, schedule_of
from refimpl.collectives.local import run_local, watch_local
from refimpl.collectives.programs import check_programs
from refimpl.collectives.prove import Proof, ScheduleError, complaint, prove
from refimpl.collectives.schedule import Round, Schedule, Sum, Transfer
from refimpl.handed_on import handed_on

__all__ = ["ALGORITHMS", "HALVES", "Proof", "Round", "Schedule", "ScheduleError", "Sum", "Transfer", "check_programs",
           "complaint", "make_schedule", "prove", "run", "run_local", "schedule_of", "watch_local"]

__getattr__, __dir__ = handed_on(__name__, {"run": "refimpl.collectives.running"})
"""``run`` imports MPI, whose start waits for all ranks. So it is imported only when it is used."""
