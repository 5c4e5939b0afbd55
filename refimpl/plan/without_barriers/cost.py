"""The exact bytes of a worker's step without barriers, as the ledger must show them (I2).

    pull      row numbers; control: 8 (1 + S), a kind and how many row numbers of each of S sparse variables
    answer    rows, and whole dense variables; control: 16
    push      row numbers and rows, and whole dense gradients, of all its microbatches in one; control: 8 (1 + S)

A worker sends these to every other rank, for each is an owner, if only of nothing; what it sends itself is not counted.
A push that its owner drops was sent, too. But for control, the steps of N workers move what a synchronous step without
local aggregation moves whose ranks hold one microbatch each: G = 1 in plain/cost_table.py.
"""

import numpy as np

from refimpl.plan.cost import INDEX
from refimpl.plan.plan import Plan
from refimpl.server.partition import row_bytes

ANSWER = 2 * INDEX
"""Bytes of control in an answer."""


def bytes_of_worker_step(plan: Plan, variables, worker: int, pulled: dict, pushed: dict) -> dict:
    """Return {(phase, variable, kind): B} of a worker's step, B[i, j] what rank i sends rank j: (N, N) int64. Local.

    plan: every variable on the server (``check_served``).  pulled, pushed: name -> (k,) row numbers that the worker
    asks for, and that its gradient touches.
    """
    lists = control_of(plan, variables)
    found = {**_pull(plan, variables, worker, pulled), ("push", "", "control"): _between(worker, there=lists)}
    for v in variables:
        if v.sparse:
            rows = plan.partitioning(v).counts(pushed[v.name])
            found["push", v.name, "indices"] = _between(worker, there=INDEX * rows)
            found["push", v.name, "rows"] = _between(worker, there=row_bytes(v) * rows)
        else:
            whole = _whole(plan, v)
            found["pull", v.name, "dense"] = _between(worker, back=whole)
            found["push", v.name, "dense"] = _between(worker, there=whole)
    return {key: matrix for key, matrix in found.items() if matrix.any()}


def bytes_of_last_pull(plan: Plan, variables, worker: int, pulled: dict | None = None) -> dict:
    """Return the bytes, likewise, of the pull by which a worker hears that the training is over. Local.

    pulled: the rows that it asks for, in vain: under backup, where no worker knows that it has done its last step;
    None: no rows, as under every other consistency.
    """
    asks = {key: matrix for key, matrix in _pull(plan, variables, worker, pulled or {}).items() if key[2] != "rows"}
    return {key: matrix for key, matrix in asks.items() if matrix.any()}


def check_served(plan: Plan, variables):
    """Raise ValueError, naming a variable and the remedy, unless every variable is on the server, all of it. Local."""
    for v in variables:
        strategy = plan.strategies[v.name]
        if strategy.replicated or len(strategy.parts(v)) > 1:
            raise ValueError(f"without barriers every variable is on the server, but {v.name} has strategy "
                             f"{strategy.name}: take --architecture ps, without --hot-rows")


def control_of(plan: Plan, variables) -> np.ndarray:
    """Return the bytes of control that a pull or a push brings each owner: (N,) int64. Local. Raises ValueError."""
    check_served(plan, variables)
    return np.full(plan.ranks, INDEX * (1 + sum(v.sparse for v in variables)))


def _pull(plan, variables, worker, pulled):
    """The bytes of a pull and its answers, but for dense variables. pulled: may lack variables, of no rows then."""
    lists = control_of(plan, variables)
    found = {("pull", "", "control"): _between(worker, lists, np.full(plan.ranks, ANSWER))}
    for v in variables:
        if v.sparse and v.name in pulled:
            rows = plan.partitioning(v).counts(pulled[v.name])
            found["pull", v.name, "indices"] = _between(worker, there=INDEX * rows)
            found["pull", v.name, "rows"] = _between(worker, back=row_bytes(v) * rows)
    return found


def _whole(plan, variable):
    """(N,) int64: a dense variable's bytes, at its owner."""
    found = np.zeros(plan.ranks, np.int64)
    found[plan.strategies[variable.name].owners[0]] = variable.nbytes
    return found


def _between(worker, there=0, back=0):
    """(N, N) int64: (N,) bytes that a worker sends each owner, and that each sends back; none to itself."""
    found = np.zeros((np.size(there + back),) * 2, np.int64)
    found[worker], found[:, worker] = there, back
    found[worker, worker] = 0
    return found
