"""The run directory: config.json, plan.json, metrics.jsonl, result.json, trace.json, checkpoints, written by rank 0."""

import json
from pathlib import Path

from refimpl.training.run.files import appears_whole, write_json


class RunDirectory:
    """A directory that belongs to one training. Local to rank 0; raises OSError or ValueError with a remedy."""

    def __init__(self, path, config: dict, plan: dict, resume_at: int | None = None):
        self.path = Path(path)
        self._open(resume_at is not None)
        write_json(self.path / "config.json", config)
        self.write_plan(plan)
        if resume_at is not None:
            self._cut_metrics(resume_at)
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

    def _cut_metrics(self, step):
        """Drop the lines of steps after the checkpoint that the run resumes from."""
        path = self.path / "metrics.jsonl"
        lines = path.read_text().splitlines() if path.exists() else []
        kept = [line for line in lines if _step_of(line) is not None and _step_of(line) <= step]
        with appears_whole(path) as temporary:
            temporary.write_text("".join(line + "\n" for line in kept))

    def write_plan(self, plan: dict):
        """Write plan.json, again when a search has changed the plan."""
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


def _step_of(line: str):
    """Return the step of a line of metrics, None if the line is cut off."""
    try:
        return json.loads(line)["step"]
    except (json.JSONDecodeError, KeyError):
        return None


def read_metrics(directory) -> list[dict]:
    """Return the records of metrics.jsonl; a last line that was cut off is left out. Local."""
    lines = (Path(directory) / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if _step_of(line) is not None]


def refuse_taken(directory: Path):
    """Raise ValueError if a run was begun in this directory. Local."""
    if holds_run(directory):
        raise ValueError(f"{directory} already holds a run: continue it with --resume {directory}, "
                         "or give another --output")


def holds_run(directory: Path) -> bool:
    """Return True if a run was begun in this directory. Local."""
    return (directory / "config.json").exists()


def free_name(directory: Path, taken=holds_run) -> Path:
    """Return ``directory``, or directory-2, directory-3, ... : the first that is not taken. Local."""
    number, candidate = 2, Path(directory)
    while taken(candidate):
        candidate = Path(f"{directory}-{number}")
        number += 1
    return candidate
