"""Time whole training steps in turns, with the bytes that they put on the cards, and their computation alone."""

import itertools
import statistics
from dataclasses import dataclass, replace

import numpy as np

from kernels.random import key_of
from refimpl.experiments.bench.together import time_together
from refimpl.experiments.cluster.card import card_bytes
from refimpl.transport import Communicator

SEED = 0
WARM_UP = 3
"""Calls of each before the turns begin: for connections, memory, compilation; and to see how long one takes."""


@dataclass(frozen=True)
class Raced:
    """turns: seconds of a call on the slowest rank, turn by turn.

    card: [sent, received] bytes of the busiest card in a call, the mean of all; None: there are no cards to look at
    (machines that share memory).
    """

    turns: list[float]
    card: list[float] | None

    @property
    def seconds(self) -> float:
        """The median of the turns."""
        return statistics.median(self.turns)


def race_with_cards(comm: Communicator, functions: dict, seconds: float, rounds: int) -> dict[str, Raced]:
    """Time functions in turns, name -> collective callable; all are called equally often. Collective."""
    turns, whole = {name: [] for name in functions}, 0.0
    moved = {name: np.zeros(2, np.int64) for name in functions}
    for function in functions.values():
        time_together(comm, function, WARM_UP - 1)
        whole += time_together(comm, function, 1)
    calls = max(1, int(seconds / rounds / whole))
    for _, (name, function) in itertools.product(range(rounds), functions.items()):
        comm.meet("a benchmark")
        before = card_bytes()
        turns[name].append(time_together(comm, function, calls))
        if before is not None:
            moved[name] += np.subtract(card_bytes(), before)
    result = {}
    for name, spent in turns.items():
        everyone = comm.share(moved[name], "bench").max(axis=0) / (rounds * calls)
        result[name] = Raced(spent, everyone.tolist() if everyone.any() else None)
    return result


def time_alone(comm: Communicator, computations: dict) -> dict[str, float]:
    """Return name -> seconds of a computation, all ranks computing at once, the median of a few turns. Collective."""
    turns = {name: [] for name in computations}
    for _, (name, function) in itertools.product(range(6), computations.items()):
        turns[name].append(time_together(comm, function, 2))
    return {name: statistics.median(spent[1:]) for name, spent in turns.items()}  # the first of all is for caches


def computation(model, data, rank):
    """Return a callable: forward and backward pass of one microbatch on given rows, without any exchange. Local."""
    batch = replace(data.microbatch(0, rank), key=key_of(SEED, "microbatch", 0, rank), state={})
    needs = model.rows_needed(batch)
    dense = {v.name: v.initial_value(SEED) for v in model.variables if not v.sparse}
    rows = {v.name: np.zeros((len(needs[v.name]), *v.shape[1:]), v.dtype) for v in model.variables if v.sparse}
    return lambda: model.loss_and_gradients(dense, rows, batch)
