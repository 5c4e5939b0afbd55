"""A rank that kills or stops itself where a test says: REFIMPL_WATCH=dying:Dying, REFIMPL_DIE="RANK@STEP@PLACE ...".

PLACE: a number of seconds after the step has begun, or module:Class.method: when that is called next, from then on.
STEP 0: before the training.
RANK@STEP@PLACE@SECONDS: the rank is not killed but stopped, and continued so many seconds later; 0: never.
"""

import importlib
import os
import signal
import subprocess
import threading
import time
from contextlib import contextmanager
from functools import partial


class Dying:
    """See ``refimpl.cli.train._watcher``."""

    def __init__(self, comm):
        deaths = [death.split("@") for death in os.environ["REFIMPL_DIE"].split()]
        self.deaths = {int(step): how for rank, step, *how in deaths if int(rank) == comm.rank}
        if how := self.deaths.pop(0, None):
            die_at(*how)

    @contextmanager
    def step(self, trainer):
        if how := self.deaths.pop(trainer.step + 1, None):
            die_at(*how)
        yield

    def close(self):
        pass


class Timed(Dying):
    """The same; it prints when each step has ended, and when the rank was killed."""

    @contextmanager
    def step(self, trainer):
        if self.deaths.pop(trainer.step + 1, None):
            os.write(2, f"killed {time.monotonic()}\n".encode())
            die()
        yield
        os.write(2, f"step {time.monotonic()}\n".encode())


def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)


def stop(seconds, *_):
    if float(seconds):
        subprocess.Popen(["sh", "-c", f"sleep {seconds}; kill -CONT {os.getpid()}"], start_new_session=True,
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.kill(os.getpid(), signal.SIGSTOP)


def die_at(place, stopped=None):
    end = die if stopped is None else partial(stop, stopped)
    module, _, path = place.partition(":")
    if not path:
        return threading.Timer(float(place), end).start() if float(place) else end()
    (name, method), module = path.split("."), importlib.import_module(module)
    original = getattr(getattr(module, name), method)

    def instead(*arguments, **named):
        end()
        return original(*arguments, **named)  # of a rank that was continued

    setattr(getattr(module, name), method, instead)
