"""Count a rank's calls and messages in a step of the language model over each channel, on machines of two ranks."""

import sys
from collections import Counter

import numpy as np

from models.registry import workloads_for
from refimpl.experiments.bench.timing import take_turns, time_together
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.channel.choice import over_channel
from refimpl.transport.machines import machines_of
from refimpl.transport.messages import MpiMessages, MpiPrepared
from refimpl.transport.rounds import CompiledRounds

STEPS, WARM = 6, 2
WAITING = {"pause", "progress", "completed", "test_some", "is_free", "has_come", "_read", "sleep", "wait_for_number",
           "check_alive", "following", "_test", "advance", "late"}
"""Functions that a rank calls again and again while it waits. Their number depends on how busy the cores are."""
LOOKS = {"go_on", "_leave", "_come"}
"""Functions that count as waiting if they return that they found nothing."""


class StepCalls:
    """Count the calls of Python functions, and messages, in a ``with`` block. Local.

    frames: function -> calls.  requests: this rank's sends and receives by MPI.
    in_vain: calls of LOOKS that found nothing.
    """

    def __init__(self):
        self.frames, self.requests, self.in_vain = Counter(), 0, 0

    def _note(self, frame, event, found):
        if event == "call":
            self.frames[frame.f_code.co_name] += 1
        elif event == "return" and frame.f_code.co_name in LOOKS:
            self.in_vain += not found
        elif event == "return" and frame.f_code is MpiMessages.start.__code__:
            self.requests += len(frame.f_locals["requests"])
        elif event == "return" and frame.f_code is MpiPrepared.start.__code__:
            self.requests += len(frame.f_locals["self"].requests)
        elif event == "return" and frame.f_code is CompiledRounds.__call__.__code__:  # starts them without Python
            self.requests += sum(len(messages.requests) for messages, _ in frame.f_locals["self"].rounds if messages)

    def __enter__(self):
        sys.setprofile(self._note)
        return self

    def __exit__(self, *_):
        sys.setprofile(None)

    def row(self, steps: int) -> list[float]:
        """Return a step's (calls that do not wait, calls, requests, tensors written into slots)."""
        comprehensions = ("<listcomp>", "<genexpr>", "<lambda>")  # in which one polls, too
        busy = sum(n for name, n in self.frames.items() if name not in WAITING and name not in comprehensions)
        return [n / steps for n in (busy - self.in_vain, sum(self.frames.values()), self.requests,
                                    self.frames["tell"])]


def main(comm, ways: list[str], ranks: int, rounds: int) -> dict:
    """Return way -> [calls, calls with waits, messages, tensors, milliseconds] of each round. Collective.

    ranks: of each machine; there is no network between machines.  Means over ranks; seconds are the slowest rank's.
    """
    comm = Communicator(comm.mpi, machines_of(np.arange(comm.size) // ranks), 300.0)
    (workload,) = workloads_for("channel")

    def block(way, _) -> list[float]:
        with over_channel(comm, way):
            trainer = Trainer.open(workload.make_model(), workload.make_data(comm.size),
                                   Options(architecture="hybrid", device="cpu", overlap=False), comm)
            for _ in range(WARM):
                trainer.train_step()
            seconds = time_together(comm, trainer.train_step, STEPS)
            comm.meet("steps that are counted")
            with StepCalls() as calls:
                for _ in range(STEPS):
                    trainer.train_step()
            comm.meet("the end of a block")
        everyone = comm.gather_numbers(calls.row(STEPS), "what was counted")
        busy, calls_in_all, requests, tensors = everyone.mean(axis=0).tolist()
        return [busy, calls_in_all, requests / 2, tensors, 1e3 * seconds]

    return take_turns(dict.fromkeys(ways), rounds, block)
