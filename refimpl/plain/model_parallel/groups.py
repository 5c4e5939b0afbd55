"""Hybrid data and model parallelism (SplitBrain, arXiv 2112.15317): fully connected layers cut over groups of ranks.

    mesh 2 x 2           group 0: ranks 0 1             group 1: ranks 2 3
    convolutions         every rank computes its own microbatches with all weights
    a layer that is cut  member 0 computes the left columns, member 1 the right ones, of all microbatches of the group

A step is a sequence of rounds, one for each microbatch of a member. In a round each of the K members contributes one
microbatch, and all members take these K together through the layers that are cut (SplitBrain's modulo layer). Each
column of an output needs whole rows of the input, so the members gather the outputs of a layer before the next one.
Backwards, each member has a partial sum over its columns. These are added up, as nodes of one tree. The unit of
computation is one microbatch times one block of columns. It is the same on every mesh, and so are the bits.

    mpirun -n 4 python -m refimpl.plain.model_parallel.groups
"""

import numpy as np
from mpi4py import MPI

from models import Batch
from models.fully_connected import dropout_key, end_of, tree_sum
from models.perceptron import Perceptron
from refimpl.plain.adding.tree import form_nodes, microbatches_of
from refimpl.plain.collectives.allreduce import allreduce
from refimpl.plain.messages import Messages


class Group:
    """K neighbouring ranks, the members. A list below has K matrices, one for the microbatch of each member.

    Member k has the k-th of K equal parts of the columns. Each method is collective over the group.
    """

    def __init__(self, comm, members):
        self.ranks = Messages(comm.Split(comm.rank // members, comm.rank))
        self.size, self.member = members, self.ranks.rank

    def gather_rows(self, x):
        """Return the list of all members' x."""
        return self.ranks.gather(x, "rows")

    def add_rows(self, partials):
        """Return the sum of all members' partial sums for this member's rows: ``gather_rows`` backwards."""
        return tree_sum(self.ranks.exchange(partials, "rows"))

    def gather_columns(self, parts):
        """Return the list with the columns of all members."""
        mine = np.concatenate(parts)  # the microbatches of all members, one below the other
        return self._split(parts, np.concatenate(self.ranks.gather(mine, "columns"), axis=1))

    def add_columns(self, partials):
        """Return the list with this member's columns of the sum over all members: ``gather_columns`` backwards."""
        arrived = self.ranks.exchange(np.split(np.concatenate(partials), self.size, axis=1), "columns")
        return self._split(partials, tree_sum(arrived))

    def own_rows(self, parts):
        """Return this member's rows with all columns: the output of the layers that are cut."""
        return np.concatenate(self.ranks.exchange(parts, "out"), axis=1)

    def own_columns(self, x):
        """Return the list of all members' rows with this member's columns: ``own_rows`` backwards."""
        return self.ranks.exchange(np.split(x, self.size, axis=1), "out")

    def _split(self, like, matrix):
        """Return the rows of the matrix as a list with the lengths of ``like``."""
        return np.split(matrix, np.cumsum([len(part) for part in like])[:-1])


def one_round(group, model, cut, dense, batch):
    """Take this member's microbatch forwards and backwards; return (loss, gradients, kept). Collective.

    gradients: of the layers that are not cut.  kept: cut layer -> all members' (input x, gradient of x Wᵀ + b).
    model: a ``models.protocol.Sharded``; its first connected layers are ``cut``.
    dense: {name: value}; of a layer that is cut, this member's part.
    """
    x, targets, saved = model.features(dense, batch)  # the convolutions, of this member's microbatch
    keys = [int(key[0]) for key in group.ranks.gather(np.array([batch.key], np.uint64), "keys")]  # of all members
    inputs_of, scales_of = {}, {}  # layer -> what its backward pass needs, for all members' microbatches
    inputs = group.gather_rows(x)
    for layer in cut:
        weight, bias = layer.of(dense)  # this member's part
        first = group.member * layer.blocks // group.size  # this member's first block of columns
        done = [layer.forward(rows, weight, bias, first, dropout_key(key, layer)) for rows, key in zip(inputs, keys)]
        outputs = [y for y, _ in done]
        inputs_of[layer], scales_of[layer] = inputs, [scale for _, scale in done]
        inputs = outputs if layer is cut[-1] else group.gather_columns(outputs)
    # this member's microbatch through the layers that are not cut, to the loss and back to the cut layers
    loss, grad, gradients = end_of(model, model.connected[len(cut):], group.own_rows(outputs), targets, dense, batch)
    grads, kept = group.own_columns(grad), {}
    for layer in reversed(cut):
        grads = [grad * scale for grad, scale in zip(grads, scales_of[layer])]  # scale: of dropout and relu
        kept[layer] = list(zip(inputs_of[layer], grads))
        partials = [layer.input_gradient(grad, layer.of(dense)[0]) for grad in grads]
        grads = group.add_columns(partials) if layer is not cut[0] else group.add_rows(partials)
    return loss, gradients | model.features_backward(grads, saved, dense, batch.ready), kept


def summed_gradients(comm, group, model, dense, batches, microbatches):
    """Return {name: gradient summed over all microbatches}. Collective.

    batches: those of this rank; each rank has equally many.
    """
    cut = [layer for layer in model.connected if layer.blocks > 1]
    done = [one_round(group, model, cut, dense, batch) for batch in batches]
    own = {name: [gradients[name] for _, gradients, _ in done] for name in done[0][1]}  # of layers that are whole
    shard = {}  # of this member's part of the layers that are cut
    for layer in cut:  # the group's microbatches in order: those of its first member come first
        of_group = [kept[layer][member] for member in range(group.size) for *_, kept in done]
        pairs = [layer.weight_gradients(grad, x) for x, grad in of_group]
        shard[f"{layer.name}.weight"], shard[f"{layer.name}.bias"] = zip(*pairs)
    everyone, same_part = Messages(comm), Messages(comm.Split(comm.rank % group.size, comm.rank))
    sums = {name: add_up_over(everyone, gradients, microbatches) for name, gradients in own.items()}
    return sums | {name: add_up_over(same_part, gradients, microbatches) for name, gradients in shard.items()}


def add_up_over(ranks, gradients, microbatches):
    """Return the sum of all ranks' gradients, a list of consecutive microbatches on each. Collective."""
    nodes = form_nodes(microbatches_of(ranks.rank, ranks.size, microbatches)[0], [g.ravel() for g in gradients], np.add)
    return allreduce(ranks, np.array(list(nodes.values())), microbatches).reshape(gradients[0].shape)


def main(comm=MPI.COMM_WORLD, microbatches=12):
    """Sum the gradients of a small perceptron on each mesh of these ranks: the bytes differ, the bits do not."""
    model, rng = Perceptron(keep=0.5), np.random.default_rng(0)
    batches = [Batch(rng.standard_normal((5, 12), np.float32), rng.standard_normal((5, 3), np.float32), key=key)
               for key in range(microbatches)][slice(*microbatches_of(comm.rank, comm.size, microbatches))]
    cut = {v.name for layer in model.connected[:-1] for v in layer.variables("float32")}
    for members in (k for k in (1, 2, 4) if comm.size % k == 0):
        group = Group(comm, members)
        dense = {v.name: v.initial_value(0) for v in model.variables}
        dense |= {name: np.split(dense[name], members)[group.member] for name in cut}
        sums, sent = summed_gradients(comm, group, model, dense, batches, microbatches), dict(group.ranks.sent)
        whole = np.concatenate(group.ranks.gather(sums["fc1.weight"], "show"))
        Messages(comm).tell(f"{comm.size // members} x {members}: to the group {sent}, {whole.tobytes().hex()[:8]}…")


if __name__ == "__main__":
    main()
