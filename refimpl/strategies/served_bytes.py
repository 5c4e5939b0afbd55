"""The exact bytes between ranks, owners and aggregators, for strategies that keep values at owners.

A client of the server (``refimpl.server.clients``) is a rank, or with local aggregation the aggregator of a machine.
Then rows go from ranks to aggregators ("inside"), and their union from aggregators to owners ("across").
"""

import numpy as np

from kernels import unique_ids
from refimpl.gradients import cover, leaves_of
from refimpl.plan.between import Between, Product
from refimpl.plan.cost import INDEX
from refimpl.plan.sample import union
from refimpl.server.partition import row_bytes


def across(plan, out, into) -> Between:
    """Return the bytes from clients to owners: out[r] into[o] from r to o, if r is a client of o. Local.

    out, into: (N,) int64.
    """
    aggregators, nought = plan.aggregators(), np.zeros_like(out)
    if aggregators is None:
        return Between(products=(Product(out, into, nought, nought),))
    return Between(products=tuple(Product(np.where(aggregators.sizes == size, out, 0), into, aggregators.places,
                                          aggregators.places % size) for size in np.unique(aggregators.sizes)))


def inside(plan, out, into, once: bool = False) -> Between:
    """Return the bytes from ranks to aggregators: out[r] into[o] from r to its machine's aggregator for o. Local.

    out, into: (N,) int64.  once: out[r] once for each aggregator, if into[o] is above 0 for any of its owners.
    """
    aggregators, found = plan.aggregators(), [np.zeros((3, 0), np.int64)]
    for ranks in map(np.array, () if aggregators is None else aggregators.machines):
        load = np.bincount(aggregators.places % ranks.size, into).astype(np.int64)
        nbytes = np.outer(out[ranks], load > 0 if once else load)
        found.append(np.array([ranks.repeat(ranks.size), np.tile(ranks, ranks.size), nbytes.ravel()]))
    return Between.listed(plan.ranks, *np.concatenate(found, axis=1))


def groups(plan) -> tuple[tuple[int, ...], ...]:
    """Return the ranks whose pulls and pushes are merged: those of each machine, or each rank alone. Local."""
    aggregators = plan.aggregators()
    return aggregators.machines if aggregators is not None else tuple((rank,) for rank in range(plan.ranks))


def nodes_pushed(plan):
    """Return (nodes of each rank, nodes of each client): (N,) int64 each. Local."""
    own = np.array([len(cover(leaves_of(r, plan.ranks, plan.microbatches))) for r in range(plan.ranks)])
    of_client, aggregators = own.copy(), plan.aggregators()
    for ranks in groups(plan) if aggregators is not None else ():
        of_client[list(ranks)] = len(aggregators.joined(ranks[0], plan.microbatches))
    return own, of_client


def pull_rows(variable, parts, plan, pulled) -> dict:
    """Return the bytes of pulls: 8 for each row number, d s for each row, 8 for the length of each list. Local.

    d columns of s bytes.  pulled[r]: (k,) rows that rank r needs.
    """
    name, width, length = variable.name, row_bytes(variable), np.full(plan.ranks, INDEX * plan.pull_rounds)
    to_aggregators = _rows_inside(plan, parts, range(plan.ranks), pulled)
    to_owners = _rows_across(plan, parts, [ranks[0] for ranks in groups(plan)],
                             [union([pulled[r] for r in ranks]) for ranks in groups(plan)])
    return {("gather", "", "control"): inside(plan, length, _owning(plan, parts), once=True),
            ("gather", name, "indices"): INDEX * to_aggregators,
            ("pull", "", "control"): across(plan, length, _owning(plan, parts)),
            ("pull", name, "indices"): INDEX * to_owners, ("pull", name, "rows"): width * to_owners.T,
            ("scatter", name, "rows"): width * to_aggregators.T}


def push_rows(variable, parts, plan, pushed, codec) -> dict:
    """Return the bytes of a push: 8 + d s for each row of each node, and 8 for the length of each list. Local.

    d columns of s bytes, as the codec encodes them.  pushed[r]: for each node of rank r, the (k,) rows that its
    gradient touches.
    """
    name, width, (of_rank, of_client) = variable.name, row_bytes(variable, codec), nodes_pushed(plan)
    to_aggregators = _rows_inside(plan, parts, np.arange(plan.ranks).repeat(list(map(len, pushed))),
                                  [ids for nodes in pushed for ids in nodes])
    joined = [(ranks[0], ids) for ranks in groups(plan) for ids in _joined(plan, ranks, pushed)]
    to_owners = _rows_across(plan, parts, [first for first, _ in joined], [ids for _, ids in joined])
    return {("aggregate", "", "control"): inside(plan, INDEX * of_rank, _owning(plan, parts), once=True),
            ("aggregate", name, "indices"): INDEX * to_aggregators, ("aggregate", name, "rows"): width * to_aggregators,
            ("push", "", "control"): across(plan, INDEX * of_client, _owning(plan, parts)),
            ("push", name, "indices"): INDEX * to_owners, ("push", name, "rows"): width * to_owners}


def _owning(plan, parts):
    """Return 1 for each rank that owns rows, 0 for others: (N,) int64."""
    return np.minimum(np.bincount(parts.owners, minlength=plan.ranks), 1)


def _rows_inside(plan, parts, ranks, id_lists) -> Between:
    """Return the rows that ranks send to the aggregators of their machine. ranks[i]: the sender of id_lists[i]."""
    if plan.aggregators() is None:
        ranks, id_lists = [], []
    ranks, owners = _ranks_and_owners(parts, ranks, id_lists)
    return Between.listed(plan.ranks, ranks, _clients(plan, ranks, owners), np.ones_like(ranks))


def _rows_across(plan, parts, ranks, id_lists) -> Between:
    """Return the rows that clients send to owners. ranks[i]: a rank of the machine that sends id_lists[i]."""
    ranks, owners = _ranks_and_owners(parts, ranks, id_lists)
    return Between.listed(plan.ranks, _clients(plan, ranks, owners), owners, np.ones_like(ranks))


def _ranks_and_owners(parts, ranks, id_lists):
    """Return the rank and the owner of each row in the lists: (k,) int64 each. ranks[i]: of id_lists[i]."""
    ids = np.concatenate([np.empty(0, np.int64), *id_lists])
    return np.repeat(np.array(ranks, np.int64), list(map(len, id_lists))), parts.owners_of(ids)


def _clients(plan, ranks, owners):
    """Return the client of each owner for each rank: (k,) int64. ranks, owners: (k,) int64."""
    aggregators = plan.aggregators()
    return ranks if aggregators is None else aggregators.aggregator(ranks, owners)


def _joined(plan, ranks, pushed):
    """Return the rows of each node that the client pushes for these ranks."""
    if plan.aggregators() is None:
        return pushed[ranks[0]]
    nodes = [ids for peer in ranks for ids in pushed[peer]]
    return [unique_ids(np.concatenate([nodes[i] for i in some]))
            for _, some in plan.aggregators().joined(ranks[0], plan.microbatches)]
