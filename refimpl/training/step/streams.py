"""A rank's GPU computes on one stream and exchanges on another at the same time. Events order their work.

    computing   ──forward, backward──┬────────────────┬──update──┬──
                                ready ▼          ended ▲     over ▼
    exchanging  ──────────────────────merge, send, add─┴─────────────next pull──

The host only orders the work, without waiting for it. CuPy's pool reuses freed memory for the next allocation on the
same stream, without waiting for the other stream. So an array that one stream made and the other uses is kept until the
first stream waits for the second. (CUDA C++ Programming Guide: Streams; Events. CuPy: Memory Management.)
"""

from contextlib import nullcontext


class OneLine:
    """On a CPU each operation is finished when its call returns, so there is nothing to order. Local."""

    def beside(self):
        """Return the context in which a thread launches the work of exchanges."""
        return nullcontext()

    def mark(self):
        """Return an event after all work that was launched so far on the calling thread's stream."""

    def after(self, event):
        """Let the calling thread's stream wait for an event, if there is one."""

    def meet(self):
        """Let this thread's stream and the stream of exchanges each wait for all earlier work of the other."""


class Streams(OneLine):
    """On a GPU: one stream for computing and one for exchanges. Local to make; two threads use it."""

    def __init__(self, cupy):
        self.cupy, self.exchanging = cupy, cupy.cuda.Stream(non_blocking=True)

    def beside(self):
        return self.exchanging

    def mark(self):
        return self._recorded(self.cupy.cuda.get_current_stream())

    def after(self, event):
        if event is not None:
            self.cupy.cuda.get_current_stream().wait_event(event)

    def meet(self):
        ours, theirs = self.mark(), self._recorded(self.exchanging)
        self.exchanging.wait_event(ours)
        self.after(theirs)

    def _recorded(self, stream):
        event = self.cupy.cuda.Event(disable_timing=True)  # others take longer
        event.record(stream)
        return event


def open_streams(xp) -> OneLine:
    """Return the streams of arrays of ``xp``. Local."""
    return OneLine() if xp.__name__ != "cupy" else Streams(xp)
