"""A rank that kills itself where a test says: REFIMPL_WATCH=dying:Dying, REFIMPL_DIE="RANK@STEP@PLACE ...".

PLACE: a number of seconds after the step has begun, or module:Class.method: when that is called next, from then on.
"""

import importlib
import os
import signal
import threading
from contextlib import contextmanager


class Dying:
    """See ``refimpl.cli.train._watcher``."""

    def __init__(self, comm):
        deaths = [death.split("@") for death in os.environ["REFIMPL_DIE"].split()]
        self.deaths = {int(step): place for rank, step, place in deaths if int(rank) == comm.rank}

    @contextmanager
    def step(self, trainer):
        if place := self.deaths.pop(trainer.step + 1, None):
            die_at(place)
        yield

    def close(self):
        pass


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def die_at(place):
    module, _, path = place.partition(":")
    if not path:
        return threading.Timer(float(place), die).start() if float(place) else die()
    name, method = path.split(".")
    setattr(getattr(importlib.import_module(module), name), method, die)


class Stopping(Dying):
    """The same, but a rank is stopped: MPI does not notice."""

    @contextmanager
    def step(self, trainer):
        if self.deaths.pop(trainer.step + 1, None):
            os.kill(os.getpid(), signal.SIGSTOP)
        yield
