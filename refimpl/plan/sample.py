"""The rows that a training will touch: the results of the model's ``rows_needed`` for some steps of its data.

    α = mean over workers and sampled steps of  (rows that the worker touches) / (rows of the variable)

Nothing is computed or sent, and no ranks are needed, because rows are kept by microbatch. It is assumed that a gradient
touches all rows that ``rows_needed`` returned.
"""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Callable

import numpy as np

from kernels import unique_ids
from kernels.random import key_of
from refimpl.gradients import cover, leaves_of
from refimpl.transport.machines import Machines

STEPS = 4  # the default: the mean of α hardly changes from step to step


@dataclass(frozen=True, eq=False)
class Sample:
    """Row numbers by step and microbatch. Local.

    rows: name -> number of rows of each sparse variable.  steps: the sampled steps.
    touched[i][name][v]: (k,) int64 sorted unique rows that microbatch v of step steps[i] touches.
    """

    microbatches: int
    rows: dict[str, int]
    steps: tuple[int, ...]
    touched: tuple[dict[str, list], ...]

    def of_groups(self, index: int, name: str, groups) -> list:
        """Return the sorted unique rows that each group of microbatches touches in the ``index``-th sampled step."""
        leaves = self.touched[index][name]
        return [union([leaves[v] for v in group]) for group in groups]

    def pulled(self, index: int, name: str, ranks: int) -> list:
        """Return the rows of a variable that each of ``ranks`` ranks needs, for ``predict_step``."""
        return self.of_groups(index, name, workers_of(self.microbatches, ranks)) if name in self.rows else []

    def pushed(self, index: int, name: str, ranks: int) -> list:
        """Return the rows of each tree node of each of ``ranks`` ranks, for ``predict_step``."""
        nodes = [nodes_of(leaves, self.microbatches) for leaves in workers_of(self.microbatches, ranks)]
        return [self.of_groups(index, name, each) for each in nodes] if name in self.rows else []

    def both(self, index: int, ranks: int) -> tuple[dict, dict]:
        """Return (name -> ``pulled``, name -> ``pushed``) of all sparse variables."""
        return tuple({name: of(index, name, ranks) for name in self.rows} for of in (self.pulled, self.pushed))

    @cached_property
    def by_anyone(self) -> dict[str, list]:
        """name -> for each sampled step, the sorted unique rows that all microbatches together touch."""
        everyone = [range(self.microbatches)]
        return {name: [self.of_groups(i, name, everyone)[0] for i in range(len(self.steps))] for name in self.rows}

    def alphas(self, name: str, groups) -> np.ndarray:
        """Return (steps,) float64: the fraction of the rows that a group of microbatches touches, mean over groups."""
        rows = max(1, self.rows[name])
        return np.array([np.mean([len(ids) / rows for ids in self.of_groups(i, name, groups)])
                         for i in range(len(self.steps))])

    def alpha(self, name: str, ranks: int) -> float:
        """Return α of a worker: the mean over the ranks and the sampled steps."""
        return float(self.alphas(name, workers_of(self.microbatches, ranks)).mean())

    def alpha_machine(self, name: str, machines: Machines) -> float:
        """Return α' of a machine, what its workers touch together: the mean over machines and sampled steps."""
        return float(self.alphas(name, machine_leaves(self.microbatches, machines)).mean())

    def popularity(self, name: str, machines: Machines, local_aggregation: bool = True) -> np.ndarray:
        """Return (rows,) int64: how often each row is pulled in all sampled steps, by machines or by workers."""
        groups = (machine_leaves(self.microbatches, machines) if local_aggregation
                  else workers_of(self.microbatches, sum(map(len, machines))))
        counts = np.zeros(self.rows[name], np.int64)
        for i in range(len(self.steps)):
            for ids in self.of_groups(i, name, groups):
                counts[ids] += 1
        return counts

    def pulls_per_step(self, machines: Machines, local_aggregation: bool = True) -> dict[str, np.ndarray]:
        """Return name -> (rows,) float64: how often each row is pulled in a step, the mean over the sampled steps."""
        steps = max(1, len(self.steps))
        return {name: self.popularity(name, machines, local_aggregation) / steps for name in self.rows}


def take_sample(model, data, seed: int, steps: int | tuple[int, ...] = STEPS, check: Callable | None = None) -> Sample:
    """Ask the model for the rows of all microbatches of some steps. Local. Raises ValueError if there are no examples.

    steps: the steps, or their number, spread over the first epoch.  model, data: see ``models.Model``,
    ``models.data.Data``.
    seed: microbatches get the keys of a training with this seed, so they draw the same candidates; they get no state.
    check(needs): raises an error for invalid rows.
    """
    sparse = [v for v in model.variables if v.sparse]
    if not data.steps_per_epoch:
        raise ValueError("the data has no step, so no rows can be counted: give more data")
    if isinstance(steps, int):
        many = min(steps, data.steps_per_epoch)
        steps = tuple(i * data.steps_per_epoch // many for i in range(many))
    chosen = steps if sparse else ()
    touched = tuple(_needs(model, data, seed, step, sparse, check) for step in chosen)
    return Sample(data.microbatches, {v.name: v.shape[0] for v in sparse}, chosen, touched)


def _needs(model, data, seed, step, sparse, check):
    needs: dict[str, list] = {v.name: [] for v in sparse}
    for v in range(data.microbatches):
        batch = data.microbatch(step, v)
        asked = {}
        if batch is not None:
            asked = model.rows_needed(replace(batch, key=key_of(seed, "microbatch", step, v)))
            if check is not None:
                check(asked)
        for name, rows in needs.items():
            rows.append(asked.get(name, np.empty(0, np.int64)))
    return needs


def union(id_lists) -> np.ndarray:
    """Return the sorted unique row numbers of all lists: (k,) int64. Local."""
    if len(id_lists) == 1:
        return id_lists[0]
    return unique_ids(np.concatenate([np.empty(0, np.int64), *id_lists]))


def workers_of(microbatches: int, ranks: int) -> list:
    """Return the microbatches of each rank. Local."""
    return [leaves_of(rank, ranks, microbatches) for rank in range(ranks)]


def machine_leaves(microbatches: int, machines: Machines) -> list:
    """Return the microbatches of each machine, sorted. Local."""
    ranks = sum(map(len, machines))
    return [sorted(v for rank in machine for v in leaves_of(rank, ranks, microbatches)) for machine in machines]


def nodes_of(leaves, microbatches: int) -> list:
    """Return the microbatches of each tree node that covers these microbatches, which may have gaps. Local."""
    return [range(node.first_leaf, min(node.first_leaf + (1 << node.level), microbatches)) for node in cover(leaves)]
