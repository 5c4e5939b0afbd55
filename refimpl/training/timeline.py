"""Where a step's time goes: spans of phases, for metrics and for a trace that opens in Perfetto."""

import time
from contextlib import contextmanager


class Timeline:
    """Spans (phase, begin, end) in seconds of one rank's clock. ``keep``: remember all of them, for a trace. Local."""

    def __init__(self, keep: bool = False):
        self.keep = keep
        self.spans: list[tuple[str, float, float, int]] = []
        self.seconds: dict[str, float] = {}
        self.step = 0

    @contextmanager
    def phase(self, name: str):
        """Time what happens inside."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            end = time.perf_counter()
            self.seconds[name] = self.seconds.get(name, 0.0) + end - begin
            if self.keep:
                self.spans.append((name, begin, end, self.step))

    def start_step(self, step: int):
        """Begin the account of a step."""
        self.step, self.seconds = step, {}


def chrome_events(rank: int, spans, origin: float) -> list[dict]:
    """Return Chrome trace events (microseconds since ``origin``) of a rank's spans. Local."""
    events = [{"name": "process_name", "ph": "M", "pid": rank, "args": {"name": f"rank {rank}"}}]
    for name, begin, end, step in spans:
        events.append({"name": name, "cat": "step", "ph": "X", "pid": rank, "tid": 0, "ts": (begin - origin) * 1e6,
                       "dur": (end - begin) * 1e6, "args": {"step": step}})
    return events
