"""The exact bytes between ranks, owners and aggregators, as matrices, for strategies that keep values at owners.

    B[i, j]: bytes that rank i sends rank j.     counts[r, o]: rows (or bytes) that rank r has for owner o

A client of the server (``refimpl.server.clients``) is a rank, or with local aggregation the aggregator of a machine.
Then rows go from ranks to aggregators ("inside"), and their union from aggregators to owners ("across").
"""

import numpy as np

from kernels import unique_ids
from refimpl.gradients import cover, leaves_of
from refimpl.plan.cost import INDEX
from refimpl.plan.sample import union
from refimpl.server.partition import row_bytes


def across(plan, counts):
    """Return the counts from clients to owners. counts[r, o]: from rank r, or its machine, to owner o. Local."""
    deals = np.zeros_like(counts)
    for rank, owners in enumerate(plan.clients().owners):
        deals[rank, list(owners)] = 1
    return counts * deals


def inside(plan, counts):
    """Return the counts from ranks to the aggregators of their machine. counts[r, o]: of rank r, for owner o. Local."""
    found, aggregators = np.zeros_like(counts), plan.aggregators()
    if aggregators is not None:
        for rank in range(plan.ranks):
            members = list(aggregators.machine(rank))
            found[members, rank] = counts[np.ix_(members, aggregators.owners_of(rank))].sum(axis=1)
    np.fill_diagonal(found, 0)
    return found


def lists(way, plan, parts):
    """Return L[i, j] = 1 if rank i sends rank j a list of a variable's rows, by ``inside`` or ``across``. Local.

    j is an owner of rows of the variable, or the aggregator for an owner.
    """
    owning = np.zeros((plan.ranks, plan.ranks), np.int64)
    owning[:, list(parts.owners)] = 1
    return np.minimum(way(plan, owning), 1)


def groups(plan) -> list[tuple[int, ...]]:
    """Return for each rank the ranks whose pulls and pushes are merged with its own. Local."""
    aggregators = plan.aggregators()
    return [aggregators.machine(r) if aggregators is not None else (r,) for r in range(plan.ranks)]


def nodes_pushed(plan):
    """Return (nodes of each rank, nodes of each client): (N,) int64 each. Local."""
    own = [len(cover(leaves_of(r, plan.ranks, plan.microbatches))) for r in range(plan.ranks)]
    return np.array(own), np.array([len(nodes) for nodes in plan.clients().nodes])


def pull_rows(variable, parts, plan, pulled) -> dict:
    """Return the bytes of pulls: 8 for each row number, d s for each row, 8 for the length of each list. Local.

    d columns of s bytes.  pulled[r]: (k,) rows that rank r needs.
    """
    name, width, length = variable.name, row_bytes(variable), INDEX * plan.pull_rounds
    own = _by_owner(parts, pulled)
    united = _by_owner(parts, [union([pulled[r] for r in members]) for members in groups(plan)])
    to_aggregators, to_owners = inside(plan, own), across(plan, united)
    return {("gather", "", "control"): length * lists(inside, plan, parts),
            ("gather", name, "indices"): INDEX * to_aggregators,
            ("pull", "", "control"): length * lists(across, plan, parts),
            ("pull", name, "indices"): INDEX * to_owners, ("pull", name, "rows"): width * to_owners.T,
            ("scatter", name, "rows"): width * to_aggregators.T}


def push_rows(variable, parts, plan, pushed, codec) -> dict:
    """Return the bytes of a push: 8 + d s for each row of each node, and 8 for the length of each list. Local.

    d columns of s bytes, as the codec encodes them.  pushed[r]: for each node of rank r, the (k,) rows that its
    gradient touches.
    """
    name, width = variable.name, row_bytes(variable, codec)
    own = np.array([_by_owner(parts, per_node).sum(axis=0) for per_node in pushed])
    united = np.array([_by_owner(parts, _joined(plan, rank, pushed)).sum(axis=0) for rank in range(plan.ranks)])
    of_rank, of_client = nodes_pushed(plan)
    to_aggregators, to_owners = inside(plan, own), across(plan, united)
    return {("aggregate", "", "control"): INDEX * of_rank[:, None] * lists(inside, plan, parts),
            ("aggregate", name, "indices"): INDEX * to_aggregators, ("aggregate", name, "rows"): width * to_aggregators,
            ("push", "", "control"): INDEX * of_client[:, None] * lists(across, plan, parts),
            ("push", name, "indices"): INDEX * to_owners, ("push", name, "rows"): width * to_owners}


def _joined(plan, rank, pushed):
    """Return the rows of each node that a client pushes."""
    aggregators = plan.aggregators()
    if aggregators is None:
        return pushed[rank]
    nodes = [ids for peer in aggregators.machine(rank) for ids in pushed[peer]]
    return [unique_ids(np.concatenate([nodes[i] for i in some]))
            for _, some in aggregators.joined(rank, plan.microbatches)]


def _by_owner(parts, id_lists):
    """(lists, N) int64: the rows of each list by owner."""
    return np.array([parts.counts(ids) for ids in id_lists], np.int64).reshape(-1, parts.ranks)
