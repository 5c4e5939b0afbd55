"""What a training does when a signal asks it to end: it may write one more checkpoint, and says what is on disk."""

import os
import signal
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path

from refimpl.training.run.checkpoint import steps_saved
from refimpl.transport.errors import Interrupted
from refimpl.transport.job.ending import ASK_TO_END

STOP = 127
"""What ``progress`` asks for, in place of a signal's number."""
ONE_SECONDS = 1.0
"""A launcher may hand on what the terminal has sent to every process already: within this time it is one signal."""


class Signals:
    """The signals that this rank gets, as a context. Local.

    Without ``checkpoint`` one raises Interrupted where the rank is; with it, it is kept in ``asked`` for the end of the
    step, and only a second one is raised. directory: where checkpoints are written, None: nowhere, or not known yet.
    """

    def __init__(self, checkpoint: bool, directory: Path | None = None):
        self.checkpoint, self.directory = checkpoint, directory
        self.asked, self.since = 0, 0.0
        self.before: dict = {}

    def __enter__(self) -> "Signals":
        if threading.current_thread() is threading.main_thread():
            self.unraisable, sys.unraisablehook = sys.unraisablehook, self._dropped
            self.before = {number: signal.getsignal(number) for number in ASK_TO_END}
            for number, before in self.before.items():
                signal.signal(number, self._go_on if before is signal.SIG_IGN else self._end)
        return self

    def __exit__(self, *_):
        if self.before:
            sys.unraisablehook = self.unraisable
        for number, before in self.before.items():
            signal.signal(number, signal.SIG_DFL if before is None else before)  # None: not of Python's

    def error(self) -> Interrupted | None:
        """Return what all ranks shall hear before the next step, None if this rank was not asked to end."""
        if self.asked and self.checkpoint:
            return Interrupted(signal.Signals(self.asked).name, self.asked)
        return self._at_once() if self.asked else None  # where it was raised, somebody has taken it for an error

    def _end(self, number, _):
        first = not self.asked
        if first:
            self.asked, self.since = number, time.monotonic()
        if not self.checkpoint or not first and time.monotonic() - self.since >= ONE_SECONDS:
            raise self._at_once()

    def _dropped(self, what):
        """Tell what an error was raised in vain for, as in a callback from C; of a signal ``error`` tells in time."""
        if not isinstance(what.exc_value, Interrupted):
            self.unraisable(what)

    def _at_once(self):
        return Interrupted(f"ended by {signal.Signals(self.asked).name}: {on_disk(self.directory)}", self.asked, True)

    def _go_on(self, number, _):
        """Say that a signal which was ignored from the start, as nohup does, has come."""
        os.write(2, f"refimpl: {signal.Signals(number).name} came and is ignored, because the program was started "
                    f"so (nohup); the training goes on: {on_disk(self.directory)}\n".encode())


def stop(trainer):
    """End a training after the step at hand, as after its last one, within ``stopping``. Local to rank 0."""
    if trainer.step < trainer.options.steps:
        raise Interrupted("progress returned True", STOP)


@contextmanager
def stopping(trainer):
    """Leave the block where all ranks have heard of ``stop``. Collective."""
    try:
        yield
    except Interrupted as asked:
        if asked.signal != STOP:
            raise
        trainer.failure = None


def on_disk(directory: Path | None) -> str:
    """Return in words from what a training can go on. Local to the rank that writes it."""
    steps = [] if directory is None else steps_saved(directory)
    return (f"the checkpoint of step {steps[-1]} is saved; go on with --resume {directory}" if steps
            else "no checkpoint is saved")
