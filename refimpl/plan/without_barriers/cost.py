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
    return _matrices(worker, messages_of_worker_step(plan, variables, worker, pulled, pushed))


def bytes_of_last_pull(plan: Plan, variables, worker: int, pulled: dict | None = None) -> dict:
    """Return the bytes, likewise, of the pull by which a worker hears that the training is over. Local.

    pulled: the rows that it asks for, and is sent: under backup, where no worker knows that it has done its last step;
    None: nothing is asked for, as under every other consistency.
    """
    if pulled is None:
        return _matrices(worker, _to_others(plan, worker, _pull(plan, variables, {})))
    asked = messages_of_worker_step(plan, variables, worker, pulled, pulled)
    return _matrices(worker, {key: way for key, way in asked.items() if key[0] == "pull"})


def messages_of_worker_step(plan: Plan, variables, worker: int, pulled: dict, pushed: dict) -> dict:
    """Return the same as {(phase, variable, kind): (there, back)}: (N,) int64 to each owner, and from it. Local."""
    found = _pull(plan, variables, pulled)
    found["push", "", "control"] = _control(plan, variables), 0
    for v in variables:
        if v.sparse:
            rows = plan.partitioning(v).counts(pushed[v.name])
            found["push", v.name, "indices"] = INDEX * rows, 0
            found["push", v.name, "rows"] = row_bytes(v) * rows, 0
        else:
            whole = np.where(np.arange(plan.ranks) == plan.strategies[v.name].owners[0], v.nbytes, 0)
            found["pull", v.name, "dense"] = 0, whole
            found["push", v.name, "dense"] = whole, 0
    return _to_others(plan, worker, found)


def check_served(plan: Plan, variables):
    """Raise ValueError, naming a variable and the remedy, unless every variable is on the server, all of it. Local."""
    for v in variables:
        strategy = plan.strategies[v.name]
        if strategy.replicated or len(strategy.parts(v)) > 1:
            raise ValueError(f"without barriers every variable is on the server, but {v.name} has strategy "
                             f"{strategy.name}: take --architecture ps, without --hot-rows")


def _pull(plan, variables, pulled):
    """The messages of a pull and its answers, but for dense variables. pulled: may lack variables, of no rows then."""
    check_served(plan, variables)
    found = {("pull", "", "control"): (_control(plan, variables), ANSWER)}
    for v in variables:
        if v.sparse and v.name in pulled:
            rows = plan.partitioning(v).counts(pulled[v.name])
            found["pull", v.name, "indices"] = INDEX * rows, 0
            found["pull", v.name, "rows"] = 0, row_bytes(v) * rows
    return found


def _control(plan, variables):
    """(N,) int64: bytes of control that a pull or a push brings each owner."""
    return np.full(plan.ranks, INDEX * (1 + sum(v.sparse for v in variables)))


def _to_others(plan, worker, messages):
    """The messages but for those of the worker to itself."""
    others = np.arange(plan.ranks) != worker
    return {key: (there * others, back * others) for key, (there, back) in messages.items()}


def _matrices(worker, messages):
    """key -> (N, N) int64 of what a worker sends each owner, and each sends back; without those of nothing."""
    found = {}
    for key, (there, back) in messages.items():
        if there.any() or back.any():
            found[key] = np.zeros((len(there),) * 2, np.int64)
            found[key][worker], found[key][:, worker] = there, back
    return found
