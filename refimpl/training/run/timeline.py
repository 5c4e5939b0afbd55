"""The time of each phase of a step, for metrics and for a trace that opens in Perfetto."""

import json
import threading
import time
from contextlib import contextmanager

import numpy as np

LANES = ("step", "exchange")
"""The names of a rank's threads in the trace: the one that computes, and the one that exchanges meanwhile."""


class Timeline:
    """Spans (phase, begin, end, step, lane) in seconds of one rank's clock. ``keep``: keep all, for a trace. Local.

    seconds: phase -> seconds of the step in it, without the phases inside it. The phases of the thread that made the
    timeline (lane 0) add up to the step. Those of another thread (lane 1) run at the same time.
    """

    def __init__(self, keep: bool = False):
        self.keep = keep
        self.spans: list[tuple[str, float, float, int, int]] = []
        self.seconds: dict[str, float] = {}
        self.step = 0
        self._owner, self._lock, self._mine = threading.get_ident(), threading.Lock(), threading.local()

    def computes_here(self):
        """Make the calling thread the one that computes: lane 0."""
        self._owner = threading.get_ident()

    @contextmanager
    def phase(self, name: str):
        """A context that measures the time of its block."""
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
        """Begin the measurement of a step."""
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

    Each machine has its own clock, so times on different machines cannot be compared exactly.
    """
    origin = float(comm.share(np.array([min((span[1] for span in spans), default=0.0)]), "trace").min())
    texts = comm.share_text(json.dumps(chrome_events(comm.rank, spans, origin)))
    return [event for text in texts for event in json.loads(text)]
