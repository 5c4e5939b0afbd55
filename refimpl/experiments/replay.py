"""Replay: a training that sleeps instead of computing, and exchanges the real rows.

Two cores cannot compute for 48 ranks at once, but they can move the bytes of 48 ranks. The profile of a workload says
when a microbatch reads its rows and has its gradients ready, measured alone. A replayed microbatch sleeps until these
moments, and returns gradients of the real ids and shapes. The trainer handles them (pull, push, allreduce, merge, norm,
update) like any others.

Seconds are those of the processor (time.thread_time), not of the clock. They are equal on an idle core; on a shared one
only the processor's say how long the computation takes.
"""

import time
from collections import UserDict
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
from msgspec import Meta, Struct
from threadpoolctl import threadpool_limits

from kernels import RowGradient
from kernels.random import key_of
from models import Batch
from models.data import fingerprint_of
from refimpl.json_file import read_json
from refimpl.training.run.files import appears_whole, write_json

PROFILE_FORMAT = 1
PROFILED_STEPS = 2
MOST_PROFILE = 1 << 30  # bytes


@dataclass(frozen=True)
class Entry:
    """One measured microbatch.

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
        if name not in self.seen and name in self.data:  # looking for an absent name reads nothing
            self.seen.add(name)
            self.report("read", [name])
        return self.data[name]


def record_entry(model, dense, rows, batch, array_number) -> Entry:
    """Compute one microbatch; return its timed events. Local.

    array_number(ids): returns the number of this array of ids in the profile.
    """
    events, handed_out = [], set()

    def report(what, names):
        events.append((time.thread_time() - begin, what, list(names)))

    def ready(gradients):
        if new := [name for name in gradients if name not in handed_out]:
            handed_out.update(new)
            report("ready", new)

    begin = time.thread_time()
    loss, gradients = model.loss_and_gradients(_Watched(dense, report), _Watched(rows, report),
                                               replace(batch, ready=ready))
    seconds = time.thread_time() - begin
    sparse = [v.name for v in model.variables if v.sparse]
    needs = {name: array_number(ids) for name, ids in model.rows_needed(batch).items()}
    touched = {name: array_number(gradients[name].ids) for name in sparse}
    return Entry(tuple(events), seconds, float(loss), needs, touched)


def measure_profile(workload, microbatches: int, directory: Path, seed: int = 0) -> "Profile":
    """Compute each microbatch of PROFILED_STEPS steps twice, alone; write and return the profile. Local.

    Parameters keep their first values, because the time of a microbatch does not depend on them.
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
        twice = [record_entry(model, dense, rows, replace(batch, state=each), number) for each in (dict(state), state)]
        return min(twice, key=lambda entry: entry.seconds)  # others may disturb caches

    states: list[dict] = [{} for _ in range(microbatches)]
    with threadpool_limits(1):
        measured(0, 0, {})  # compiled kernels, warm caches
        table = [[vars(measured(step, v, states[v])) for v in range(microbatches)] for step in range(PROFILED_STEPS)]
    arrays = [np.frombuffer(ids, np.int64) for ids in numbers]
    directory.mkdir(parents=True, exist_ok=True)
    with appears_whole(directory / "ids.npy") as temporary, open(temporary, "wb") as file:
        np.save(file, np.concatenate([np.empty(0, np.int64), *arrays]))
    write_json(directory / "profile.json", {
        "format": PROFILE_FORMAT, "workload": workload.to_json(), "ends": np.cumsum([0, *map(len, arrays)]).tolist(),
        "examples": [data.examples(step) // microbatches for step in range(PROFILED_STEPS)], "entries": table})
    return Profile(directory)


class _Kept(Struct):
    format: Literal[PROFILE_FORMAT]
    workload: dict
    ends: list[int]
    examples: list[int]
    entries: Annotated[list[Annotated[list[Entry], Meta(min_length=1)]], Meta(min_length=1)]


class Profile:
    """A measured profile. Its ids are in a file that all ranks of a machine share read-only (mmap). Local.

    entries[step][microbatch]: Entry.  examples[step]: words or images of a microbatch.
    """

    def __init__(self, directory: Path):
        kept = read_json(Path(directory) / "profile.json", _Kept, what="a profile", most_bytes=MOST_PROFILE,
                         remedy=f"remove {directory} to measure again")
        self.workload, self.examples, self.ends, self.entries = kept.workload, kept.examples, kept.ends, kept.entries
        self.flat = np.load(Path(directory) / "ids.npy", mmap_mode="r").view(np.ndarray)

    @property
    def mean_seconds(self) -> float:
        """Mean seconds of computation of a microbatch."""
        return float(np.mean([entry.seconds for row in self.entries for entry in row]))

    def slowest_seconds(self, ranks: int) -> float:
        """Return the slowest rank's seconds of computation, one microbatch a rank, mean over steps."""
        return float(np.mean([max(entry.seconds for entry in row[:ranks]) for row in self.entries]))

    def ids(self, number: int) -> np.ndarray:
        """Return a read-only view of an array of ids."""
        return self.flat[self.ends[number]:self.ends[number + 1]]


SMALL = 1e-6
"""Every element of a replayed gradient; small, so that parameters stay finite."""


@cache
def constant(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return a read-only array of SMALL, made once. Local."""
    array = np.full(shape, SMALL, dtype)
    array.flags.writeable = False
    return array


class ReplayData:
    """A ``Data`` that repeats the profile's steps, with its first V microbatches; inputs are the profile's entries."""

    def __init__(self, profile: Profile, microbatches: int):
        if not 1 <= microbatches <= len(profile.entries[0]):
            raise ValueError(f"the profile has {len(profile.entries[0])} microbatches a step, not {microbatches}: "
                             "measure it for more")
        self.profile, self.microbatches = profile, microbatches
        self.steps_per_epoch = len(profile.entries)

    @property
    def fingerprint(self) -> str:
        return fingerprint_of("replay", np.asarray(self.profile.flat), self.microbatches, self.steps_per_epoch)

    def examples(self, step: int) -> int:
        return self.profile.examples[step % self.steps_per_epoch] * self.microbatches

    def starts_epoch(self, step: int) -> bool:
        return False  # a replay carries no state

    def microbatch(self, step: int, index: int) -> Batch:
        return Batch(self.profile.entries[step % self.steps_per_epoch][index], None, None, float(self.examples(step)))


class ReplayModel:
    """A ``Model`` that replays a profile. variables: the real model's.

    slowdown: seconds of replay for each measured second (cells/proportions.py says why).
    """

    def __init__(self, variables, profile: Profile, slowdown: float = 1.0):
        self.variables, self.profile, self.slowdown = list(variables), profile, slowdown
        self.named = {v.name: v for v in self.variables}

    def rows_needed(self, batch: Batch):
        return {name: self.profile.ids(number) for name, number in batch.inputs.needs.items()}

    def loss_and_gradients(self, dense, rows, batch: Batch):
        """Sleep, read and hand out as the real model did; return its loss and gradients of its ids and shapes."""
        entry, gradients = batch.inputs, {}
        start, elsewhere = time.perf_counter(), 0.0  # seconds spent waiting for values and handing out
        for seconds, what, names in entry.events:
            self._sleep_until(start + seconds * self.slowdown + elsewhere)
            begin = time.perf_counter()
            if what == "read":
                for name in names:
                    (rows if self.named[name].sparse else dense)[name]
            else:
                gradients.update((name, self._gradient(name, entry)) for name in names)
                batch.ready(gradients)
            elsewhere += time.perf_counter() - begin
        self._sleep_until(start + entry.seconds * self.slowdown + elsewhere)
        gradients.update((name, self._gradient(name, entry)) for name in self.named if name not in gradients)
        return entry.loss, gradients

    def _sleep_until(self, moment):
        left = moment - time.perf_counter()
        if left > 0:
            time.sleep(left)

    def _gradient(self, name, entry):
        variable = self.named[name]
        if not variable.sparse:
            return constant(variable.shape, variable.dtype)
        ids = self.profile.ids(entry.gradients[name])
        most = 1 << len(ids).bit_length()  # powers of two, so that few arrays are kept
        return RowGradient(ids, constant((most, *variable.shape[1:]), variable.dtype)[:len(ids)])
