"""Replay: a model that takes as long as the real one did alone, and touches the rows that it touched.

Two cores cannot compute for 48 ranks at once, but they can move the bytes of 48 ranks. A replayed microbatch sleeps
to the moments at which the real one read its rows and had its gradients ready, and returns gradients of the real ids
and shapes; what the trainer does with them (pull, push, allreduce, merge, norm, update) is as real as ever.
"""

import time
from functools import cache

import numpy as np

from kernels import RowGradient
from models import Batch
from models.data import fingerprint_of
from refimpl.experiments.replay.profile import Profile

SMALL = 1e-6
"""Every element of a replayed gradient: parameters stay finite however long it goes on."""


@cache
def constant(shape: tuple[int, ...], dtype) -> np.ndarray:
    """Return a read-only array of SMALL, made once. Local."""
    array = np.full(shape, SMALL, dtype)
    array.flags.writeable = False
    return array


class ReplayData:
    """A ``Data`` of the profile's first V microbatches, its steps over and over; inputs are the profile's entries."""

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

    slowdown: seconds of replay for each measured second (cells/proportions.py says why there is such a number).
    sleep, clock: of the machine; given by tests.
    """

    def __init__(self, variables, profile: Profile, slowdown: float = 1.0, sleep=time.sleep, clock=time.perf_counter):
        self.variables, self.profile, self.slowdown = list(variables), profile, slowdown
        self.sleep, self.clock = sleep, clock
        self.named = {v.name: v for v in self.variables}

    def rows_needed(self, batch: Batch):
        return {name: self.profile.ids(number) for name, number in batch.inputs.needs.items()}

    def loss_and_gradients(self, dense, rows, batch: Batch):
        """Sleep, read and hand out as the real model did; return its loss and gradients of its ids and shapes."""
        entry, gradients = batch.inputs, {}
        start, elsewhere = self.clock(), 0.0  # seconds spent waiting for values and handing out
        for seconds, what, names in entry.events:
            self._sleep_until(start + seconds * self.slowdown + elsewhere)
            begin = self.clock()
            if what == "read":
                for name in names:
                    (rows if self.named[name].sparse else dense)[name]
            else:
                gradients.update((name, self._gradient(name, entry)) for name in names)
                batch.ready(gradients)
            elsewhere += self.clock() - begin
        self._sleep_until(start + entry.seconds * self.slowdown + elsewhere)
        for variable in self.variables:
            if variable.name not in gradients:
                gradients[variable.name] = self._gradient(variable.name, entry)
        return entry.loss, gradients

    def _sleep_until(self, moment):
        left = moment - self.clock()
        if left > 0:
            self.sleep(left)

    def _gradient(self, name, entry):
        variable = self.named[name]
        if not variable.sparse:
            return constant(variable.shape, variable.dtype)
        ids = self.profile.ids(entry.gradients[name])
        most = 1 << len(ids).bit_length()  # few sizes: each is kept
        return RowGradient(ids, constant((most, *variable.shape[1:]), variable.dtype)[:len(ids)])
