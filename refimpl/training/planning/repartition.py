"""Other partitions in the middle of a training: rows and their optimizer state go straight from owner to owner.

No bit changes (I1). Beside its tables a rank fills one new array at a time, whose old one it then gives back. What
travels is counted in a phase of its own, "repartition": each row that changes its owner, with its optimizer state,
once; and a byte from each rank to each other, which says whether it has the memory.
"""

import numpy as np

from refimpl.plan import Plan


def repartition(parameters, plan: Plan) -> bool:
    """Follow another plan from the next step on; it may differ from the one before in the partitions only.

    Returns True; or False on all ranks, with nothing changed, if any has no memory for its new tables. Raises
    ValueError if the plans differ in anything else. Collective; all ranks give the same plan.
    """
    _check(parameters.plan, plan)
    tables, short = {}, False
    try:
        for exchange in parameters.exchanges:
            if plan.partitioned(exchange.variables):
                tables[exchange] = exchange.tables_for(plan)
    except MemoryError:
        short = True
    if parameters.comm.share(np.array([short]), "repartition").any():
        return False
    for exchange, new in tables.items():
        exchange.follow(plan, new)
    parameters.plan = plan
    return True


def _check(old: Plan, new: Plan):
    """Raise ValueError unless the plans differ in the partitions only. Local."""
    def rest(plan):
        return plan.replaced({name: strategy.with_owners((), "") for name, strategy in plan.strategies.items()
                              if strategy.partitioned})

    if rest(old) != rest(new):
        raise ValueError("only the partitions of sparse variables on the server can change during a training; save a "
                         "checkpoint and resume it to follow another plan")
