"""What only one rank keeps is copied to its partner, the next rank. A new training is filled from such copies."""

import numpy as np


def arrays_of(training, sparse):
    """Return {(variable, kind): array} of all sparse or all dense variables; the kind "" is for the values."""
    return {(v.name, kind): array for v in training.variables if v.sparse == sparse for kind, array in
            {"": training.strategies[v.name].values, **training.optimizer.state[v.name]}.items()}


def share_of(training):
    """Return what this rank alone keeps: the numbers of its rows, their arrays, the state of its microbatches."""
    rows = {v.name: training.strategies[v.name].own for v in training.variables if v.sparse}
    return rows, arrays_of(training, sparse=True), training.worker.carried


def back_up(training):
    """Send this rank's share to the next rank; return the share of the rank before this one. Collective."""
    share, comm = share_of(training), training.messages.comm
    if comm.size > 1:
        training.messages.sent["backup"] += sum(array.nbytes for array in share[1].values())
    return comm.sendrecv(share, (comm.rank + 1) % comm.size, source=(comm.rank - 1) % comm.size)


def restore(training, dense, shares):
    """Fill a new training. dense: arrays of the old one, the same on all ranks.  shares: those of all old ranks."""
    for key, array in arrays_of(training, sparse=False).items():
        array[...] = dense[key]
    for (name, kind), array in arrays_of(training, sparse=True).items():
        own = training.strategies[name].own
        for rows, arrays, _ in shares:
            here = np.isin(rows[name], own)
            array[np.searchsorted(own, rows[name][here])] = arrays[name, kind][here]
    mine = range(training.worker.first, training.worker.stop)
    training.worker.carried = {v: state for _, _, states in shares for v, state in states.items() if v in mine}
