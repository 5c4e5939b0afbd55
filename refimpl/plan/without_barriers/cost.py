"""The exact bytes of a worker's step without barriers, as the ledger counts them (I2).

    pull      row numbers; control: 8 (1 + S), the kind of message and the number of rows of each of S sparse variables
    answer    rows, and whole dense variables; control: 16
    push      row numbers and rows, and whole dense gradients, summed over its microbatches; control: 8 (1 + S)

A worker sends these to every other rank, because each is an owner, perhaps of nothing. Messages to itself are not
counted. A push that its owner drops is counted. Without control, the steps of N workers move as many bytes as one
synchronous step without local aggregation in which each rank has one microbatch: L = 1 in ``strategies.cost_table``.
"""

import numpy as np

from refimpl.plan.cost import INDEX
from refimpl.plan.plan import Plan
from refimpl.server.partition import row_bytes

ANSWER = 2 * INDEX
"""Control bytes in an answer."""


def bytes_of_worker_step(plan: Plan, variables, worker: int, pulled: dict, pushed: dict) -> dict:
    """Return {(phase, variable, kind): B} of a worker's step; B[i, j]: bytes that rank i sends to rank j. Local.

    plan: all variables must be on the server (``check_served``).  pulled, pushed: name -> (k,) row numbers that the
    worker pulls, and that its gradient touches.
    """
    return _matrices(worker, messages_of_worker_step(plan, variables, worker, pulled, pushed))


def bytes_of_last_pull(plan: Plan, variables, worker: int, pulled: dict | None = None) -> dict:
    """Return the same for the pull whose answer tells the worker that the training is over. Local.

    pulled: the rows that it pulls and gets; only under backup, where a worker does not know its last step. Else None.
    """
    if pulled is None:
        return _matrices(worker, _to_others(plan, worker, _pull(plan, variables, {})))
    asked = messages_of_worker_step(plan, variables, worker, pulled, pulled)
    return _matrices(worker, {key: way for key, way in asked.items() if key[0] == "pull"})


def messages_of_worker_step(plan: Plan, variables, worker: int, pulled: dict, pushed: dict) -> dict:
    """Return the same as {(phase, variable, kind): (there, back)}: (N,) int64 bytes to and from each owner. Local."""
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
    """Raise ValueError, with a variable and the remedy, unless every variable is completely on the server. Local."""
    for v in variables:
        strategy = plan.strategies[v.name]
        if strategy.replicated or len(strategy.parts(v)) > 1:
            raise ValueError(f"without barriers every variable is on the server, but {v.name} has strategy "
                             f"{strategy.name}: take --architecture ps, without --hot-rows")


def _pull(plan, variables, pulled):
    """Return the messages of a pull and its answers, but for dense variables. pulled: a missing name has no rows."""
    check_served(plan, variables)
    found = {("pull", "", "control"): (_control(plan, variables), ANSWER)}
    for v in variables:
        if v.sparse and v.name in pulled:
            rows = plan.partitioning(v).counts(pulled[v.name])
            found["pull", v.name, "indices"] = INDEX * rows, 0
            found["pull", v.name, "rows"] = 0, row_bytes(v) * rows
    return found


def _control(plan, variables):
    return np.full(plan.ranks, INDEX * (1 + sum(v.sparse for v in variables)))


def _to_others(plan, worker, messages):
    others = np.arange(plan.ranks) != worker
    return {key: (there * others, back * others) for key, (there, back) in messages.items()}


def _matrices(worker, messages):
    """Return key -> (N, N) int64 bytes between a worker and the owners, without keys that have none."""
    found = {}
    for key, (there, back) in messages.items():
        if there.any() or back.any():
            found[key] = np.zeros((len(there),) * 2, np.int64)
            found[key][worker], found[key][:, worker] = there, back
    return found
