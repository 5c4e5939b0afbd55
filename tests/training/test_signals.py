"""A signal that comes where an error is dropped: in a callback from C, as when LLVM asks for compiled code."""

import ctypes
import os
import signal
import sys

from refimpl.training.run.signals import Signals

CALLBACK = ctypes.CFUNCTYPE(None)


def test_a_signal_in_a_callback_from_c_is_kept_without_a_traceback(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with Signals(checkpoint=False) as signals:
        CALLBACK(lambda: os.kill(os.getpid(), signal.SIGTERM))()
        kept = signals.error()
    assert kept.signal == signal.SIGTERM and str(kept) == "ended by SIGTERM: no checkpoint is saved" and not told


def test_another_error_that_is_dropped_is_told(monkeypatch):
    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(str(what.exc_value)))
    with Signals(checkpoint=False) as signals:
        CALLBACK(lambda: {}["missing"])()
    CALLBACK(lambda: {}["too"])()
    assert signals.error() is None and told == ["'missing'", "'too'"]
