"""Allreduce algorithms as data: made by short generators, proved, then run over MPI, NCCL or in one process."""

from refimpl.collectives.all_to_all import all_to_all
from refimpl.collectives.allgatherv import allgatherv
from refimpl.collectives.choose import ALGORITHMS, HALVES, make_schedule, schedule_of
from refimpl.collectives.local import run_local, watch_local
from refimpl.collectives.programs import check_programs
from refimpl.collectives.prove import Proof, ScheduleError, complaint, prove
from refimpl.collectives.run import run
from refimpl.collectives.schedule import Round, Schedule, Sum, Transfer
from refimpl.collectives.wire import CollectiveError, Ledger, Wire

__all__ = [
    "ALGORITHMS", "CollectiveError", "HALVES", "Ledger", "Proof", "Round", "Schedule", "ScheduleError", "Sum",
    "Transfer", "Wire", "all_to_all", "allgatherv", "check_programs", "complaint", "make_schedule", "prove", "run",
    "run_local", "schedule_of", "watch_local",
]
