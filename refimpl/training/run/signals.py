"""Signals that ask a training to end. It may write one more checkpoint, and says what is on disk."""

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
"""The number that stands for ``progress`` asking to end, among the numbers of signals."""
ONE_SECONDS = 1.0
"""Signals within this time count as one: a launcher may forward a signal that every process got from the terminal."""


class Signals:
    """The signals that this rank receives, as a context. Local.

    Without ``checkpoint`` a signal raises Interrupted at once. With it, the first one is kept in ``asked`` until the
    end of the step, and only a second one is raised. directory: of checkpoints; None: none, or not known yet.
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
        """Return the error that all ranks raise before the next step; None if this rank was not asked to end."""
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
        """Report an exception that Python dropped, as in a callback from C. ``error`` reports a signal's in time."""
        if not isinstance(what.exc_value, Interrupted):
            self.unraisable(what)

    def _at_once(self):
        return Interrupted(f"ended by {signal.Signals(self.asked).name}: {on_disk(self.directory)}", self.asked, True)

    def _go_on(self, number, _):
        """Report a signal that was ignored from the start, as by nohup."""
        os.write(2, f"refimpl: {signal.Signals(number).name} came and is ignored, because the program was started "
                    f"so (nohup); the training goes on: {on_disk(self.directory)}\n".encode())


def stop(trainer):
    """End a training after the current step as if it were the last, within ``stopping``. Local to rank 0."""
    if trainer.step < trainer.options.steps:
        raise Interrupted("progress returned True", STOP)


@contextmanager
def stopping(trainer):
    """A context that ends when all ranks have received ``stop``. Collective."""
    try:
        yield
    except Interrupted as asked:
        if asked.signal != STOP:
            raise
        trainer.failure = None


def on_disk(directory: Path | None) -> str:
    """Return as text from which checkpoint a training can continue. Local to the rank that writes it."""
    steps = [] if directory is None else steps_saved(directory)
    return (f"the checkpoint of step {steps[-1]} is saved; go on with --resume {directory}" if steps
            else "no checkpoint is saved")
