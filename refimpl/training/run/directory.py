"""The run directory, which rank 0 writes: config, plan, metrics, result, trace and checkpoints."""

import json
from itertools import chain, count
from pathlib import Path
from typing import Annotated, Callable, Required, TypedDict

from msgspec import Meta

from refimpl.json_file import parse_json, read_json, read_plain
from refimpl.training.run.files import appears_whole, write_json


MOST_METRICS = 4 << 30
"""The most bytes in metrics.jsonl. A step has some kilobytes."""


class RunDirectory:
    """The directory of one training. Local to rank 0; raises OSError or ValueError with a remedy.

    kept: function of a metrics line, in a resumed run: whether its step precedes the checkpoint.
    """

    def __init__(self, path, config: dict, plan: dict, kept: Callable[[dict], bool] | None):
        self.path = Path(path)
        self._open(kept is not None)
        write_json(self.path / "config.json", config)
        self.write_plan(plan)
        if kept is not None:
            self._cut_metrics(kept)
        self.metrics = open(self.path / "metrics.jsonl", "a", buffering=1)

    def _open(self, resuming):
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            probe = self.path / ".probe"
            probe.write_text("")
            probe.unlink()
            if resuming:  # of a job that was killed while it wrote: our temporary files, and those of safetensors
                for left_behind in [*self.path.glob(".*.part"), *self.path.glob(".tmp*")]:
                    left_behind.unlink()
        except OSError as problem:
            raise OSError(f"cannot write to run directory {self.path}: {problem.strerror}; "
                          "give another --output") from problem
        if not resuming:
            refuse_taken(self.path)

    def _cut_metrics(self, keeps):
        """Drop the metrics of steps after the checkpoint that the run resumes from."""
        path = self.path / "metrics.jsonl"
        kept = [line + b"\n" for line, record in (_records(path) if path.exists() else ()) if keeps(record)]
        with appears_whole(path) as temporary:
            temporary.write_bytes(b"".join(kept))

    def write_plan(self, plan: dict):
        """Write plan.json; also called when a search has changed the plan."""
        write_json(self.path / "plan.json", plan)

    def write_metrics(self, record: dict):
        """Append one line to metrics.jsonl."""
        self.metrics.write(json.dumps(record) + "\n")

    def write_trace(self, events: list[dict]):
        """Write trace.json, which opens in Perfetto or chrome://tracing."""
        write_json(self.path / "trace.json", {"traceEvents": events, "displayTimeUnit": "ms"})

    def finish(self, result: dict):
        """Write result.json and close the metrics."""
        write_json(self.path / "result.json", result)
        self.metrics.close()


class MetricsLine(TypedDict, total=False):
    """A line of metrics.jsonl: the results of a step, see ``Trainer.train_step``, and the bytes of each rank.

    Without barriers each step of a worker has a line, with ``worker``, and the seconds ``at`` which it pushed. A step
    without gradient_norm was left out (``step.precision``).
    bytes_sent, bytes_received: phase -> variable -> kind -> [of rank 0, 1, ...].
    """

    step: Required[Annotated[int, Meta(ge=1)]]
    worker: int
    at: float
    loss: Required[float]
    gradient_norm: float
    learning_rate: float
    loss_scale: float
    examples: int
    seconds: dict[str, float]
    alpha: dict[str, float]
    heldout: dict[str, float]
    metrics: dict[str, float]
    bytes_sent: dict[str, dict[str, dict[str, list[int]]]]
    bytes_received: dict[str, dict[str, dict[str, list[int]]]]


def bytes_moved(keys, counts) -> dict:
    """Return bytes_sent and bytes_received for a line of metrics. Local.

    keys: (phase, variable, kind), k of them.  counts: (2, N, k) of each rank, see ``Communicator.gather_ledger``.
    """
    found: dict = {"bytes_sent": {}, "bytes_received": {}}
    for nested, of_ranks in zip(found.values(), counts):
        for (phase, variable, kind), by_rank in zip(keys, of_ranks.T.tolist()):
            nested.setdefault(phase, {}).setdefault(variable, {})[kind] = by_rank
    return found


class Ended(TypedDict, total=False):
    """The content of result.json: ``training.result.Result`` with perplexity or accuracy."""

    architecture: Required[str]
    ranks: Required[int]
    steps: Required[int]
    loss: Required[float | None]
    examples_per_second: Required[float | None]
    parameters_sha256: Required[str]
    state_sha256: str
    sent_per_step: Required[dict[str, float]]
    seconds: dict[str, float]
    alpha: dict[str, float]
    partition_search: dict | None
    perplexity: float | None
    accuracy: float | None
    shared_memory: bool
    consistency: str
    staleness: list[dict[str, int]]


def read_metrics(directory) -> list[MetricsLine]:
    """Return the lines of metrics.jsonl. An incomplete last line is left out. Local.

    Raises ValueError, which names a damaged line; OSError if there is no file.
    """
    return [record for _, record in _records(Path(directory) / "metrics.jsonl")]


def _records(path) -> list[tuple[bytes, MetricsLine]]:
    """Return each line and its content, without an incomplete last line."""
    try:
        lines, found = read_plain(path, MOST_METRICS).split(b"\n"), []
    except ValueError as problem:
        raise ValueError(f"{path} is damaged, or no metrics: {problem}; move it away") from problem
    for number, line in enumerate(lines, 1):
        try:
            found.append((line, parse_json(line, MetricsLine)))
        except ValueError as problem:
            if number < len(lines):
                raise ValueError(f"line {number} of {path} is damaged, or not a step's metrics: {problem}; delete that "
                                 "line") from problem
    return found


def read_result(directory) -> Ended:
    """Return the content of result.json. Local. Raises ValueError for another file, OSError if there is none."""
    return read_json(Path(directory) / "result.json", Ended, what="a training's result", remedy="train again")


def refuse_taken(directory: Path):
    """Raise ValueError if this directory contains a run. Local."""
    if holds_run(directory):
        raise ValueError(f"{directory} already holds a run: continue it with --resume {directory}, "
                         "or give another --output")


def holds_run(directory: Path) -> bool:
    """Return True if this directory contains a run. Local."""
    return (directory / "config.json").exists()


def free_name(directory: Path, taken=holds_run) -> Path:
    """Return the first of ``directory``, directory-2, directory-3, ... that is not taken. Local."""
    names = chain([directory], (f"{directory}-{number}" for number in count(2)))
    return next(path for path in map(Path, names) if not taken(path))
