"""How fast are row gradients added up, merged and applied, beside NumPy and PyTorch?"""

import sys

import numpy as np

from kernels import RowGradient, aggregate_rows, merge_rows, update
from kernels.random import key_of, uniform
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.timing import Row, race

VOCABULARY, COUNT, WIDTH = 100_000, 10_240, 128
SIZE = f"{COUNT} x {WIDTH} of {VOCABULARY}"


def run(seconds: float = 2.0, rounds: int = 7) -> list[Row]:
    """Time every row kernel and its peers, ``seconds`` and one thread each; return the rows. Local."""
    torch, timings, length = import_torch(), [], {"seconds": seconds, "rounds": rounds}
    zipf = zipf_ids(key_of("bench", "ids", "a"), COUNT, VOCABULARY)
    for law, ids in (("", _uniform_ids("a")), ("-zipf", zipf)):
        values = _values("a", COUNT)
        timings += _race_aggregate(f"aggregate-rows{law}", ids, values, torch, length)
    left, right = (aggregate_rows(_uniform_ids(name), _values(name, COUNT)) for name in "ab")
    if torch is None:
        print("works left out for want of a peer: merge-rows, adagrad-rows", file=sys.stderr)
        return timings
    return timings + _race_merge(left, right, torch, length) + _race_adagrad(left, torch, length)


def _uniform_ids(name):
    """Return COUNT uniformly distributed word numbers, of which few repeat."""
    return (uniform(key_of("bench", "ids", name), COUNT) * VOCABULARY).astype(np.int64)


def zipf_ids(key: int, count: int, vocabulary: int):
    """Return word numbers, word r with probability log((r + 2) / (r + 1)) / log(vocabulary + 1): many repeat. Local."""
    return np.minimum(np.exp(uniform(key, count) * np.log(vocabulary + 1)).astype(np.int64) - 1, vocabulary - 1)


def _values(name, count):
    values = uniform(key_of("bench", "values", name), count * WIDTH) - 0.5
    return values.reshape(count, WIDTH).astype(np.float32)


def _race_aggregate(work, ids, values, torch, length):
    """NumPy is a separate work, because a ratio is taken to the best peer of a work."""

    def with_numpy():
        unique, position = np.unique(ids, return_inverse=True)
        total = np.zeros((len(unique), WIDTH), np.float32)
        np.add.at(total, position, values)
        return unique, total

    ours = {"refimpl": lambda: aggregate_rows(ids, values)}
    timings = race(f"{work}-vs-numpy", SIZE, ours, {"numpy unique + add.at": with_numpy}, **length)
    if torch is not None:
        peers = {"torch coalesce": lambda: _torch_sparse(torch, ids, values).coalesce()}
        timings += race(work, SIZE, ours, peers, **length)
    return timings


def _race_merge(left: RowGradient, right: RowGradient, torch, length):
    """PyTorch adds coalesced tensors by concatenation, so ``coalesce`` is timed, too: it gives one row per id."""
    a, b = (_torch_sparse(torch, g.ids, g.rows).coalesce() for g in (left, right))
    size = f"{len(left)} + {len(right)} rows x {WIDTH}"
    ours = {"refimpl": lambda: merge_rows(left, right)}
    return race("merge-rows", size, ours, {"torch add + coalesce": lambda: (a + b).coalesce()}, **length)


def _race_adagrad(gradient: RowGradient, torch, length):
    """Both sides start from a gradient with one row per id, and update a table of VOCABULARY rows in place."""
    table = _values("table", VOCABULARY)
    state = update.initial_state("adagrad", table)
    parameter = torch.nn.Parameter(torch.from_numpy(table.copy()))
    parameter.grad = _torch_sparse(torch, gradient.ids, gradient.rows).coalesce()
    optimizer = torch.optim.Adagrad([parameter], lr=0.2, initial_accumulator_value=1.0, eps=0.0)

    def ours():
        update.update_rows("adagrad", table, state, gradient.ids, gradient.rows, 0.2, step=1)

    size = f"{len(gradient)} x {WIDTH} of {VOCABULARY}"
    return race("adagrad-rows", size, {"refimpl": ours}, {"torch.optim.Adagrad": optimizer.step}, **length)


def _torch_sparse(torch, ids, values):
    return torch.sparse_coo_tensor(torch.from_numpy(ids)[None], torch.from_numpy(values), (VOCABULARY, WIDTH))
