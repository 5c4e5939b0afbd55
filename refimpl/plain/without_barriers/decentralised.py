"""Training without a server: each rank i trains its own replica x_i, and from time to time replicas are averaged.

    EASGD         d_i = α (x_i - x̃);  x_i = step(x_i) - d_i;  x̃ = x̃ + Σ d_i    a spring from x_i to a centre x̃
    gossip        x_i = (x_i + x_j) / 2, j: the partner in this step;  x_i = step(x_i)
    local steps   x_i = step(x_i), E times;  then all x_i = Σ n_i x_i / Σ n_i      FedAvg; n_i: the examples of rank i

``step`` is one step of the optimizer with the rank's own gradient; for SGD it is x - η g. With g = 0, EASGD keeps
Σ x_i + x̃ constant, gossip keeps the mean of all x_i, and local steps keep the weighted mean. The number of the step
alone decides which replicas are averaged. So the same number of ranks gives the same result, without an event log.
EASGD may average at every PERIOD-th step only; the other steps are step(x_i). Only values are averaged: the state of
an optimizer stays with its replica (``own_replica``).

The functions take one replica x, of any shape, or all replicas stacked along a new first axis. ``total`` adds up the
replicas in tree order, one leaf for each: it is ``stacked`` if one process has all of them, ``over(messages)`` if each
rank has one. Scalars are rounded to the dtype of x. Each operation rounds once, in the order of the lines above.

    mpirun -n 4 python -m refimpl.plain.without_barriers.decentralised
"""

import numpy as np
from mpi4py import MPI

from refimpl.plain.adding.tree import add_up
from refimpl.plain.collectives.allreduce import allreduce
from refimpl.plain.messages import Messages

BETA = 0.9
"""α = BETA / N. The centre moves by the fraction BETA towards the mean (Zhang, Choromanska and LeCun 2015)."""


def easgd(x, centre, step, alpha, total):
    """Return (x, centre) after a step: both move towards each other, by α times their distance before the step."""
    d = x.dtype.type(alpha) * (x - centre)
    return step(x) - d, centre + total(d)


def gossip(x, theirs, step):
    """Return x after a step that begins at the mean of x and the partner's replica."""
    return step((x + theirs) / x.dtype.type(2))


def local_steps(x, step, steps, examples, total):
    """Return the weighted mean of the replicas after ``steps`` steps of each.

    examples: n_i, in an array with the dtype of x and as many axes as x.
    """
    for _ in range(steps):
        x = step(x)
    return total(examples * x) / total(examples)


def train(replica, rule, period, steps, ranks, total, theirs):
    """Train an ``OwnReplica`` on each rank for ``steps`` steps; return the values on which all ranks agree. Collective.

    For EASGD this is the centre, for gossip the mean, and for local steps the last weighted mean.
    rule, period: "easgd", PERIOD; "gossip", unused; "local", E.  theirs(x, number): the partner's replica in a step.
    """
    x, step = replica.x.copy(), replica.step
    if rule == "easgd":
        centre = x
        for number in range(1, steps + 1):
            meets = number % period == 0
            x, centre = easgd(x, centre, step, BETA / ranks, total) if meets else (step(x), centre)
        return centre
    if rule == "local":
        for done in range(0, steps, period):  # the last round may be shorter
            x = local_steps(x, step, min(period, steps - done), np.full(1, replica.examples, x.dtype), total)
        return x
    for number in range(steps):
        x = gossip(x, theirs(x, number), step)
    return total(x) / x.dtype.type(ranks)


def partner(rank, ranks, step):
    """Return a rank's partner: its left and right neighbour in turns. With odd N one rank is its own partner."""
    other = rank + (1 if (rank + step) % 2 == 0 else -1)
    if ranks % 2 == 0:
        other %= ranks
    return other if other in range(ranks) else rank


def stacked(arrays):
    """Return the sum along the first axis, in tree order."""
    return add_up(0, len(arrays), {(i, i + 1): array for i, array in enumerate(arrays)}, np.add)


def over(messages):
    """Return the collective function that adds up one array of each rank, in tree order."""
    return lambda array: allreduce(messages, array.reshape(1, -1), messages.size).reshape(array.shape)


def meet(messages, x, step):
    """Return the partner's replica in this step. Only the two partners wait for each other."""
    theirs, other = np.empty_like(x), partner(messages.rank, messages.size, step)
    messages.comm.Sendrecv(x, other, recvbuf=theirs, source=other)
    messages.sent["gossip"] += x.nbytes * (other != messages.rank)
    return theirs


def main(comm=MPI.COMM_WORLD):
    """Each rank minimises (x - rank)² / 2. Print how far the replicas are from the minimum of the sum."""
    messages, best = Messages(comm), (comm.size - 1) / 2
    total, examples = over(messages), np.ones(1)
    x, y, z, centre = (np.zeros(1) for _ in range(4))
    for number in range(100):
        x, centre = easgd(x, centre, lambda x: x - 0.1 * (x - comm.rank), 0.5 / comm.size, total)
        y = gossip(y, meet(messages, y, number), lambda y: y - 0.1 * (y - comm.rank))
        if number % 4 == 0:
            z = local_steps(z, lambda z: z - 0.1 * (z - comm.rank), 4, examples, total)
    messages.tell(f"EASGD {x[0]:.3f}, centre {centre[0]:.3f}; gossip {y[0]:.3f}; local steps {z[0]:.3f}; best {best}; "
                  f"sent {dict(messages.sent)}")


if __name__ == "__main__":
    main()
