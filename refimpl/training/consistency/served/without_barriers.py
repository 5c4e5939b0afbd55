"""Equals plain/without_barriers/async_server.py: on all ranks, by messages (letters) read in arrival order.

The main thread of a rank serves, and it alone calls MPI. The worker computes in another thread, with copies of the rows
that it pulled, so no lock is needed. A rank with nothing to do sleeps, the longer the fewer letters arrive.

A cut is a pause for an evaluation or a checkpoint. Rank 0 asks for it. Each worker finishes its computation, pushes,
and begins nothing else. Then all ranks read letters until none is under way. After the cut, a worker still waits for
the answers that it had not received before.

The end: a worker that has finished tells rank 0, and its rank continues to serve. When all workers have finished, rank
0 tells all ranks. By then every pull of a worker was answered and every push was applied, so nothing is under way.
"""

import contextvars
import math
import threading
import time
from concurrent.futures import Future
from typing import Any, Callable

import numpy as np
from threadpoolctl import ThreadpoolController

from refimpl.server import Shard
from refimpl.training.consistency.served.flight import arrays_of, restore
from refimpl.training.consistency.served.owner import Owner
from refimpl.training.consistency.served.serving import FirstCome, Serving
from refimpl.training.consistency.served.worker import AsyncWorker
from refimpl.transport.letters import Letters
from refimpl.transport.waiting import Wait

DONE, END, ASK, CUT = 10, 11, 12, 13
"""Further words of messages: a worker is done; all are; a rank asks for a cut; a cut begins."""


class WithoutBarriers:
    """A training without barriers. The constructor is local; all ranks ``run`` it together.

    trainer: opened, with all parameters on the server.  order: of this rank's owner, see ``Serving``.
    """

    def __init__(self, trainer, order=None):
        self.comm, self.timeline = trainer.comm, trainer.timeline
        self.owner = Owner(shards_of(trainer.parameters), self.comm.size, trainer.options)
        worker = AsyncWorker(trainer.model, trainer.data, trainer.options, trainer.plan, self.comm.rank)
        worker.carried = trainer.carried
        self.letters, order = Letters(self.comm), order or FirstCome()
        self.serving = Serving(self.owner, worker, self.letters, order, self.comm.ledger, self.comm.machine)
        self.state, self.ended, self.done = "pull", False, set()
        self.cutting, self.asked = False, False
        self.computed: Future | None = None
        self.threads = ThreadpoolController()
        self.began = 0.0

    def begin(self, arrays: dict | None = None):
        """Begin, or continue from what was under way at a checkpoint: see ``flight``. Collective."""
        self.comm.ledger.clear()  # what is asked again counts
        self.comm.together(lambda: arrays and self._restore(arrays))
        self.comm.meet("the beginning of a training without barriers")
        self.began += time.monotonic()

    def _restore(self, arrays):
        self.began = -restore(self.serving, arrays)
        self.state = "wait" if self.serving.asked else "pull"

    def in_flight(self) -> dict:
        """Return name -> array: this rank's part of a checkpoint at a cut. Local."""
        return {} if self.ended else arrays_of(self.serving, self.seconds)

    def run(self, note: Callable[[dict], Any], until: float = math.inf, asked: Callable[[], Any] = lambda: False):
        """Continue until all workers have done all steps (``ended``), or to a cut. Collective.

        note: called with the metrics of each of the worker's steps.  until: the steps of rank 0's worker before a cut.
        asked: asked() returns whether this rank wants a cut now.
        """
        wait = Wait(self.comm.waiter, self._late, "a training without barriers", self.letters)
        wait.awake = 0.0
        while not self.ended and not (self.cutting and self.state != "compute"):
            if not self.asked and asked():
                self.asked = True
                self._say(ASK, 0)
            if self.comm.rank == 0 and self.state == "pull" and self.steps >= until:
                self._cut()
            elif self._go_on(note) or self._take():
                wait.progress()
            else:
                wait.pause()
        if not self.ended:
            self._read_all()
            self.cutting = False

    @property
    def seconds(self) -> float:
        """Seconds since the beginning. Local."""
        return time.monotonic() - self.began

    @property
    def steps(self) -> int:
        """The number of steps that this rank's worker has pushed. Local."""
        worker = self.serving.worker
        return worker.clock + (not self.serving.asked)

    def _cut(self):
        """Tell all ranks that a cut begins. Only rank 0 does this, and not after it has announced the end."""
        if not self.cutting and len(self.done) < self.comm.size:
            self.cutting = True
            for rank in range(1, self.comm.size):
                self._say(CUT, rank)

    def _read_all(self):
        """Read messages until none is under way; answers to them are read, too. Collective."""
        what, before = "a cut in a training without barriers", np.full((self.comm.size, self.comm.size), -1)
        while ((sent := self.comm.gather_numbers(self.letters.sent, what)) != before).any():
            coming, before = sent[:, self.comm.rank], sent
            wait = Wait(self.comm.waiter, lambda coming=coming: np.flatnonzero(self.letters.received < coming).tolist(),
                        what, self.letters)
            while (self.letters.received < coming).any():
                if self._take():
                    wait.progress()
                else:
                    wait.pause()

    def _go_on(self, note) -> bool:
        """Do the worker's next task, if it can be done; return whether it could."""
        serving = self.serving
        if self.cutting and self.state != "compute":
            return False
        if self.state == "pull":
            self.timeline.start_step(serving.worker.clock + 1)
            with self.timeline.phase("pull"):
                serving.pull()
            self.state = "wait"
        elif self.state == "wait" and serving.over:
            self._say(DONE, 0)
            self.state = "over"
        elif self.state == "wait" and serving.ready:
            self.computed, context = Future(), contextvars.copy_context()  # np.errstate holds there, too
            threading.Thread(target=context.run, args=(self._compute,), name="worker", daemon=True).start()
            self.state = "compute"
        elif self.state == "compute" and self.computed.done():
            self.computed.result()  # raises what the computation raised
            with self.timeline.phase("push"):
                serving.push()
            note(serving.worker.metrics(self.comm.size, self.seconds))
            self.state = "pull"
        else:
            return False
        return True

    def _take(self) -> bool:
        """Read a message if one has arrived; return whether one has."""
        letter = self.letters.take()
        if letter is None:
            return False
        word = int(letter.next(np.int64))
        if word == DONE:
            self.done.add(letter.sender)
            for rank in range(self.comm.size) if len(self.done) == self.comm.size else ():
                self._say(END, rank)
        elif word == END:
            self.ended = True
        elif word == ASK:
            self._cut()
        elif word == CUT:
            self.cutting = True
        else:
            with self.timeline.phase("serve"):
                self.serving.receive(word, letter)
        return True

    def _say(self, word, rank):
        self.letters.send(rank, np.array([word], np.int64))

    def _compute(self):
        """Compute the worker's step in a separate thread."""
        self.timeline.computes_here()
        try:
            with self.timeline.phase("compute"), self.threads.limit(limits=1):  # of OpenMP it is each thread's own
                self.serving.worker.compute()
            self.comm.stay_one()
            self.computed.set_result(None)
        except BaseException as problem:  # a model may also call sys.exit
            self.computed.set_exception(problem)

    def _late(self):
        """Return the rank that this rank waits for; None while it computes."""
        if self.state == "compute":
            return None
        clocks = self.owner.clocks
        return self.comm.waiter.abort_messages.absent() or [
            rank for rank, clock in enumerate(clocks) if clock == min(clocks) and rank != self.comm.rank]


def shards_of(parameters) -> dict[str, Shard]:
    """Return name -> this rank's shard of each variable, sparse ones first, each in the model's order. Local."""
    found = {name: shard for exchange in parameters.exchanges for name, shard in exchange.shards.items()}
    return {v.name: found[v.name] for v in sorted(parameters.variables, key=lambda v: not v.sparse) if v.name in found}
