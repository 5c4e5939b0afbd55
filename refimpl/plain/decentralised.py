"""Training without a server, and without agreement at every step: each rank has a replica of its own, x_i.

    EASGD         d_i = α (x_i - x̃);  x_i = step(x_i) - d_i;  x̃ = x̃ + Σ d_i    a spring from each to a centre
    gossip        x_i = (x_i + x_j) / 2, j the partner of this step;  x_i = step(x_i)
    local steps   x_i = step(x_i), E times;  then all have Σ n_i x_i / Σ n_i       FedAvg; n_i: examples of rank i

step: a step of the optimizer with the rank's own gradient, of SGD x - η g. With g = 0 all together keep Σ x_i + x̃
(EASGD), the mean of all x_i (gossip), the weighted mean (local steps). Who meets whom depends on the number of the step
alone: no record is needed to do it again on as many ranks. EASGD may meet at every PERIOD-th step; the others are
step(x_i). What meets are values; an optimizer's state stays with its replica (``own_replica``).

Each function takes one replica x, of any shape, or all of them, along a new first axis. ``total`` adds up over
replicas, in the order of the tree, one leaf each: ``stacked`` where all of them are here, ``over(messages)`` where each
is a rank's. Scalars are rounded to the dtype of x; every operation rounds once, as the lines are written.

    mpirun -n 4 python -m refimpl.plain.decentralised
"""

import numpy as np
from mpi4py import MPI

from refimpl.plain.allreduce import allreduce
from refimpl.plain.messages import Messages
from refimpl.plain.tree import add_up

BETA = 0.9
"""α = BETA / N: what the centre moves by of the way to the mean of all replicas (Zhang, Choromanska, LeCun 2015)."""


def easgd(x, centre, step, alpha, total):
    """Return (x, centre) after a step in which they meet: both move by what was between them before the step."""
    d = x.dtype.type(alpha) * (x - centre)
    return step(x) - d, centre + total(d)


def gossip(x, theirs, step):
    """Return x after a step from the middle between it and its partner's replica."""
    return step((x + theirs) / x.dtype.type(2))


def local_steps(x, step, steps, examples, total):
    """Return the weighted mean of the replicas after so many steps of each.

    examples: n, of the dtype of x and with as many axes.
    """
    for _ in range(steps):
        x = step(x)
    return total(examples * x) / total(examples)


def train(replica, rule, period, steps, ranks, total, theirs):
    """Return the one answer of all ranks after so many steps of an ``OwnReplica`` each. Collective.

    That is EASGD's centre; of gossip what it keeps, the mean; the last mean of local steps, whose last round may be
    shorter.  rule, period: "easgd", PERIOD; "gossip"; "local", E.  theirs(x, number): the partner's replica.
    """
    x, step = replica.x.copy(), replica.step
    if rule == "easgd":
        centre = x
        for number in range(1, steps + 1):
            meets = number % period == 0
            x, centre = easgd(x, centre, step, BETA / ranks, total) if meets else (step(x), centre)
        return centre
    if rule == "local":
        for done in range(0, steps, period):
            x = local_steps(x, step, min(period, steps - done), np.full(1, replica.examples, x.dtype), total)
        return x
    for number in range(steps):
        x = gossip(x, theirs(x, number), step)
    return total(x) / x.dtype.type(ranks)


def partner(rank, ranks, step):
    """Return whom a rank meets: its neighbours in a ring by turns. Of an odd number one is left over, with itself."""
    other = rank + (1 if (rank + step) % 2 == 0 else -1)
    if ranks % 2 == 0:
        other %= ranks
    return other if other in range(ranks) else rank


def stacked(arrays):
    """Return the sum along the first axis, in tree order."""
    return add_up(0, len(arrays), {(i, i + 1): array for i, array in enumerate(arrays)}, np.add)


def over(messages):
    """Return the function that adds up an array of each rank, in tree order. Collective."""
    return lambda array: allreduce(messages, array.reshape(1, -1), messages.size).reshape(array.shape)


def meet(messages, x, step):
    """Return the partner's replica in this step. Only the two of them wait for each other."""
    theirs, other = np.empty_like(x), partner(messages.rank, messages.size, step)
    messages.comm.Sendrecv(x, other, recvbuf=theirs, source=other)
    messages.sent["gossip"] += x.nbytes * (other != messages.rank)
    return theirs


def main(comm=MPI.COMM_WORLD):
    """Each rank has f = (x - rank)² / 2: how far are the replicas from what is best for all?"""
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
