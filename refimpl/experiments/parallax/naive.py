"""The naive parameter server's plan: TensorFlow's, as the paper found it.

One server a machine; each variable whole, in the model's order, on the server with the fewest bytes so far (PAPER.md,
Mechanisms); every worker pulls and pushes for itself. Here a machine's first rank is its server.
"""

from refimpl.plan import Placement, Plan
from refimpl.strategies import ServedDense, ServedRows
from refimpl.transport.machines import Machines


def naive_plan(variables, machines: Machines, allreduce: str = "direct") -> Plan:
    """Return the plan, V = ranks. machines: the ranks of each. Local."""
    load, placements = [0] * len(machines), []
    for variable in variables:
        least = load.index(min(load))
        load[least] += variable.nbytes
        strategy = ServedRows if variable.sparse else ServedDense
        placements.append(Placement(variable.name, strategy(owners=(machines[least][0],))))
    ranks = sum(map(len, machines))
    return Plan("ps", ranks, ranks, allreduce, tuple(placements), machines, local_aggregation=False)


def share_of_busiest(plan: Plan, variables) -> float:
    """Return the part of all bytes that lies on the server with most: 1 / servers were ideal. Local."""
    nbytes = {v.name: v.nbytes for v in variables}
    load: dict[int, int] = {}
    for name, strategy in plan.strategies.items():
        load[strategy.owners[0]] = load.get(strategy.owners[0], 0) + nbytes[name]
    return max(load.values()) / sum(load.values())
