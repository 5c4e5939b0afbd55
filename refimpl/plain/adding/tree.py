r"""The microbatch tree: one fixed way to add up V gradients, for any number of ranks.

Floating-point addition is not associative: (a + b) + c and a + (b + c) can differ in the last bit. All ranks therefore
add in the order of one fixed tree over the V microbatches. Then every number of ranks gives the same sum, to the bit:

    V = 6:         +            A node is named by the range (start, stop) of the microbatches below it. A range is cut
                 /   \          after the largest power of two that is shorter than it: (0, 6) = (0, 4) + (4, 6). Every
               +       +        sum that a rank forms is a node of this tree. Therefore it does not matter which rank
             /   \    / \       forms it.
            +     +  4   5
           / \   / \
          0   1 2   3

    python -m refimpl.plain.adding.tree
"""

import numpy as np


def add_up(start, stop, nodes, add):
    """Return the sum of microbatches [start, stop) in tree order. nodes: {(start, stop): sum}, those already formed."""
    if (start, stop) in nodes:
        return nodes[start, stop]
    if stop - start <= 1:
        raise ValueError(f"the gradient of microbatch {start} is missing")
    half = 1
    while 2 * half < stop - start:
        half *= 2
    middle = start + half  # half: the largest power of two that is shorter than the range
    return add(add_up(start, middle, nodes, add), add_up(middle, stop, nodes, add))


def microbatches_of(rank, ranks, microbatches):
    """Return (start, stop): a rank's consecutive microbatches. Shares differ by at most one; some may be empty."""
    return rank * microbatches // ranks, (rank + 1) * microbatches // ranks


def cover(start, stop):
    """Return the fewest nodes of 1, 2, 4, … microbatches that make up [start, stop): what one rank can add up."""
    nodes = []
    while start < stop:
        length = 1  # double it as long as the node begins at a multiple of its new length and does not pass ``stop``
        while start % (2 * length) == 0 and start + 2 * length <= stop:
            length *= 2
        nodes.append((start, start + length))
        start += length
    return nodes


def nodes_by_rank(ranks, microbatches):
    """Return for each rank the nodes that it forms from its own microbatches."""
    return [cover(*microbatches_of(rank, ranks, microbatches)) for rank in range(ranks)]


def by_node(nodes_of, arrays):
    """Return {node: its sum}, each sum as a flat array. arrays[r]: the sums of nodes_of[r], one after the other."""
    return {node: part for nodes, array in zip(nodes_of, arrays)
            for node, part in zip(nodes, array.reshape(max(1, len(nodes)), -1))}  # max: a rank may have no nodes


def form_nodes(start, gradients, add):
    """Return {node: sum} of a rank's gradients. gradients[i] belongs to microbatch start + i."""
    leaves = {(start + i, start + i + 1): gradient for i, gradient in enumerate(gradients)}
    return {node: add_up(*node, leaves, add) for node in cover(start, start + len(gradients))}


def sum_on(ranks, leaves, add):
    """Return the sum of ``leaves``, one for each microbatch, formed as this many ranks would form it."""
    nodes = {}
    for rank in range(ranks):
        start, stop = microbatches_of(rank, ranks, len(leaves))
        nodes |= form_nodes(start, leaves[start:stop], add)
    return add_up(0, len(leaves), nodes, add)


def main():
    """Add up six random gradients as 1 to 6 ranks would: all sums are equal. The sum from left to right differs."""
    microbatches = 6
    gradients = np.random.default_rng(0).standard_normal((microbatches, 4)).astype(np.float32)
    for ranks in range(1, microbatches + 1):
        formed = [node for nodes in nodes_by_rank(ranks, microbatches) for node in nodes]
        print(f"{ranks} ranks form {str(formed):62} sum {sum_on(ranks, gradients, np.add).tobytes().hex()}")
    print(f"{'from left to right':76} sum {sum(gradients).tobytes().hex()}")


if __name__ == "__main__":
    main()
