"""The profile of a workload: when a microbatch reads and what it has ready, measured alone, for ``replay``.

Seconds are the processor's, not the clock's (time.thread_time): on an idle core both are one, and on a shared one only
the first says what the computation took.
"""

import time
from collections import UserDict
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from threadpoolctl import threadpool_limits

from kernels.random import key_of
from refimpl.json_file import read_json
from refimpl.training.run.files import appears_whole, write_json

PROFILE_FORMAT = 1
MOST_PROFILE = 1 << 30  # bytes


@dataclass(frozen=True)
class Entry:
    """One microbatch as it was measured.

    events: (seconds since the beginning, "read" or "ready", names): rows or dense values first looked up, gradients
    handed out.  seconds: in all.  needs, gradients: name -> number of an array of ids, for sparse variables.
    """

    events: list[tuple[float, str, list[str]]]
    seconds: float
    loss: float
    needs: dict[str, int]
    gradients: dict[str, int]


class _Watched(UserDict):
    """A dictionary that reports the first look at each of its values."""

    def __init__(self, values, report):
        super().__init__(values)
        self.report, self.seen = report, set()

    def __getitem__(self, name):
        if name not in self.seen and name in self.data:  # a look for what is not there reads nothing
            self.seen.add(name)
            self.report("read", [name])
        return self.data[name]


def record_entry(model, dense, rows, batch, array_number, clock=time.thread_time) -> tuple[Entry, dict]:
    """Compute one microbatch and return what happened when, and its gradients. Local.

    array_number(ids): returns the number under which the profile keeps an array of ids.
    """
    events, handed_out = [], set()

    def report(what, names):
        events.append((clock() - begin, what, list(names)))

    def ready(gradients):
        if new := [name for name in gradients if name not in handed_out]:
            handed_out.update(new)
            report("ready", new)

    begin = clock()
    loss, gradients = model.loss_and_gradients(_Watched(dense, report), _Watched(rows, report),
                                               replace(batch, ready=ready))
    seconds = clock() - begin
    sparse = [v.name for v in model.variables if v.sparse]
    needs = {name: array_number(ids) for name, ids in model.rows_needed(batch).items()}
    touched = {name: array_number(gradients[name].ids) for name in sparse}
    return Entry(tuple(events), seconds, float(loss), needs, touched), gradients


def measure_profile(workload, microbatches: int, steps: int, directory: Path, seed: int = 0) -> Path:
    """Compute each of the ``microbatches`` x ``steps`` microbatches twice, alone, and keep the profile. Local.

    Parameters stay as they begin: how long a microbatch takes does not depend on them.
    """
    model, data = workload.make_model(), workload.make_data(microbatches, seed)
    values = {v.name: v.initial_value(seed) for v in model.variables}
    dense = {v.name: values[v.name] for v in model.variables if not v.sparse}
    numbers: dict[bytes, int] = {}  # each array of ids is kept once

    def number(ids) -> int:
        return numbers.setdefault(np.ascontiguousarray(ids, np.int64).tobytes(), len(numbers))

    def measured(step, v, state) -> Entry:
        batch = replace(data.microbatch(step, v), key=key_of(seed, "microbatch", step, v), state=state)
        rows = {name: values[name][ids] for name, ids in model.rows_needed(batch).items()}
        first, _ = record_entry(model, dense, rows, replace(batch, state=dict(state)), number)
        again, _ = record_entry(model, dense, rows, batch, number)
        return min(first, again, key=lambda entry: entry.seconds)  # others may disturb a cache: the faster counts

    states: list[dict] = [{} for _ in range(microbatches)]
    with threadpool_limits(1):
        measured(0, 0, {})  # compiled kernels, warm caches
        table = [[vars(measured(step, v, states[v])) for v in range(microbatches)] for step in range(steps)]
    arrays = [np.frombuffer(ids, np.int64) for ids in numbers]
    directory.mkdir(parents=True, exist_ok=True)
    with appears_whole(directory / "ids.npy") as temporary, open(temporary, "wb") as file:
        np.save(file, np.concatenate([np.empty(0, np.int64), *arrays]))
    write_json(directory / "profile.json", {
        "format": PROFILE_FORMAT, "workload": workload.to_json(), "ends": np.cumsum([0, *map(len, arrays)]).tolist(),
        "examples": [data.examples(step) // microbatches for step in range(steps)], "entries": table})
    return directory


class _Kept(Struct):
    format: Literal[PROFILE_FORMAT]
    workload: dict
    ends: list[int]
    examples: list[int]
    entries: Annotated[list[Annotated[list[Entry], Meta(min_length=1)]], Meta(min_length=1)]


class Profile:
    """A measured profile; ids lie in a file that all ranks of a machine share read-only (mmap). Local.

    entries[step][microbatch]: Entry.  examples[step]: words or images of a microbatch.
    """

    def __init__(self, directory: Path):
        kept = read_json(Path(directory) / "profile.json", _Kept, what="a profile", most_bytes=MOST_PROFILE,
                         remedy=f"remove {directory} to measure again")
        self.workload, self.examples, self.ends, self.entries = kept.workload, kept.examples, kept.ends, kept.entries
        self.flat = np.load(Path(directory) / "ids.npy", mmap_mode="r").view(np.ndarray)

    @property
    def mean_seconds(self) -> float:
        """Seconds of a microbatch's computation, mean over all that were measured."""
        return float(np.mean([entry.seconds for row in self.entries for entry in row]))

    def slowest_seconds(self, ranks: int) -> float:
        """Return the seconds of a step's computation, one microbatch a rank: of the slowest, mean over steps."""
        return float(np.mean([max(entry.seconds for entry in row[:ranks]) for row in self.entries]))

    def ids(self, number: int) -> np.ndarray:
        """Return an array of ids: a read-only view."""
        return self.flat[self.ends[number]:self.ends[number + 1]]
