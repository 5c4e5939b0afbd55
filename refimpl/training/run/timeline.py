"""Where a step's time goes: spans of phases, for metrics and for a trace that opens in Perfetto."""

import json
import threading
import time
from contextlib import contextmanager

import numpy as np

LANES = ("step", "exchange")
"""What the threads of a rank are called in the trace: the one that computes, the one that exchanges meanwhile."""


class Timeline:
    """Spans (phase, begin, end, step, lane) in seconds of one rank's clock. ``keep``: remember all, for a trace. Local.

    seconds: phase -> seconds of the step in it, less those of phases within it. The phases of the thread that made the
    timeline (lane 0) add up to the step; those of another thread (lane 1) go on beside them.
    """

    def __init__(self, keep: bool = False):
        self.keep = keep
        self.spans: list[tuple[str, float, float, int, int]] = []
        self.seconds: dict[str, float] = {}
        self.step = 0
        self._owner, self._lock, self._mine = threading.get_ident(), threading.Lock(), threading.local()

    def computes_here(self):
        """From now on the calling thread is the one that computes: lane 0."""
        self._owner = threading.get_ident()

    @contextmanager
    def phase(self, name: str):
        """Time what happens inside."""
        inner = self._mine.__dict__.setdefault("inner", [])  # seconds of the phases within each open phase
        inner.append(0.0)
        begin = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            own = end - begin - inner.pop()
            if inner:
                inner[-1] += end - begin
            with self._lock:
                self.seconds[name] = self.seconds.get(name, 0.0) + own
                if self.keep:
                    self.spans.append((name, begin, end, self.step, int(threading.get_ident() != self._owner)))

    def start_step(self, step: int):
        """Begin the account of a step."""
        self.step, self.seconds = step, {}


def chrome_events(rank: int, spans, origin: float) -> list[dict]:
    """Return Chrome trace events (microseconds since ``origin``) of a rank's spans. Local."""
    events = [{"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}]
    lanes = {lane for *_, lane in spans}
    if lanes > {0}:
        events += [{"name": "thread_name", "ph": "M", "pid": rank, "tid": lane, "args": {"name": LANES[lane]}}
                   for lane in sorted(lanes)]
    for name, begin, end, step, lane in spans:
        events.append({"name": name, "cat": "step", "ph": "X", "pid": rank, "tid": lane, "ts": (begin - origin) * 1e6,
                       "dur": (end - begin) * 1e6, "args": {"step": step}})
    return events


def gather_events(comm, spans) -> list[dict]:
    """Return all ranks' spans as Chrome trace events; the first of all begins at 0. Collective.

    The clock is that of a machine: between machines the times of their ranks are apart.
    """
    origin = float(comm.share(np.array([min((span[1] for span in spans), default=0.0)]), "trace").min())
    texts = comm.share_text(json.dumps(chrome_events(comm.rank, spans, origin)))
    return [event for text in texts for event in json.loads(text)]
