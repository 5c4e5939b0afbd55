"""Blink's way to use all links at the same time: it packs spanning trees from one root into the links of a machine.

A machine's GPUs are joined by links of different rates. A ring uses some of them and leaves the others idle. Blink
packs spanning trees from a root: each carries a part of the data, and together they fit into the links.

1. Multiplicative weights (Garg and Könemann). Every link has a length, at first a small one: δ / rate. Every tree has
   an amount, the data that it will carry, at first 0. Repeat: take the shortest tree from the root, and increase its
   amount by what its narrowest link can carry. Make each of its links longer by the factor 1 + ε · increase / rate, so
   that later trees avoid links that are used much. Stop when the shortest tree is at least 1 long. Then divide all
   amounts by one number, so that they fit into the links. Their sum is within about ε of the best rate. But there are
   many trees, around a hundred.
2. Few trees. An integer programme chooses among these trees. Each tree gets a whole number of units of a link's rate,
   and their sum is as large as the links allow. On eight V100s six trees remain, at the best rate.

The shortest spanning tree of directed links is found by Chu and Liu's and Edmonds' algorithm.

    python -m refimpl.plain.collectives.tree_packing
"""

import numpy as np
from scipy.optimize import LinearConstraint, milp

DGX_1V = {"04": 2, "03": 2, "12": 2, "15": 2, "23": 2, "47": 2, "56": 2, "67": 2,
          "01": 1, "02": 1, "13": 1, "26": 1, "37": 1, "45": 1, "46": 1, "57": 1}
"""The NVLinks of a machine: "04": 2 says that GPUs 0 and 4 are joined by two. Each carries its rate both ways."""


def directed(pairs):
    """Return {(from, to): rate} of links that carry as much both ways."""
    # the name of a pair, such as "04", has two letters
    return {link: rate for (a, b), rate in pairs.items() for link in ((int(a), int(b)), (int(b), int(a)))}


def shortest_tree(nodes, root, lengths):
    """Return the links of the shortest tree from ``root`` to all nodes. lengths: {(from, to): length}."""
    entering = {}  # node -> where the shortest link to this node comes from
    for (a, b), length in lengths.items():
        if b != root and a != b and (b not in entering or length < lengths[entering[b], b]):
            entering[b] = a
    cycle = find_cycle(entering)
    if cycle is None:
        return {(a, b) for b, a in entering.items()}
    # These shortest links form a cycle. Make one node of the cycle, and find the shortest tree of the smaller network.
    # A link that enters the cycle at b replaces the cycle's own link to b. So it costs its length minus the length of
    # that link. origin: a link of the smaller network -> the link of this network that it stands for.
    name, shorter, origin = max(nodes) + 1, {}, {}
    for (a, b), length in lengths.items():
        link = name if a in cycle else a, name if b in cycle else b
        saved = length - lengths[entering[b], b] if b in cycle else length
        if link[0] != link[1] and (link not in shorter or saved < shorter[link]):
            shorter[link], origin[link] = saved, (a, b)
    tree = {origin[link] for link in shortest_tree({n for n in nodes if n not in cycle} | {name}, root, shorter)}
    entered = {b for _, b in tree}  # The tree enters the cycle at one node. The cycle's own link to it is left out.
    return tree | {(entering[b], b) for b in cycle if b not in entered}


def find_cycle(entering):
    """Follow entering from each node: node, entering[node], … Return the nodes of a cycle, or None."""
    for start in entering:
        path, node = [], start
        while node in entering and node not in path:
            path.append(node)
            node = entering[node]
        if node in path:
            return path[path.index(node):]
    return None


def many_trees(rates, root, epsilon=0.05):
    """Return {tree: amount}. Together the amounts fit into the rates, and their sum is within about ε of the best."""
    nodes = {node for link in rates for node in link}
    delta = (1 + epsilon) * ((1 + epsilon) * len(rates)) ** (-1 / epsilon)  # so small that the proof for ε holds
    lengths, amounts = {link: delta / rate for link, rate in rates.items()}, {}
    while True:
        tree = frozenset(shortest_tree(nodes, root, lengths))
        if sum(lengths[link] for link in tree) >= 1:
            break
        amount = min(rates[link] for link in tree)
        amounts[tree] = amounts.get(tree, 0) + amount
        for link in tree:
            lengths[link] *= 1 + epsilon * amount / rates[link]
    # The amounts in the fullest link are this many times its rate. Divided by this number, all fit.
    fullest = max(sum(amount for tree, amount in amounts.items() if link in tree) / rates[link] for link in rates)
    return {tree: amount / fullest for tree, amount in amounts.items()}


def few_trees(rates, trees):
    """Return {tree: whole number of units of rate}, chosen from ``trees`` so that their sum is as large as possible."""
    trees, links = list(trees), list(rates)
    uses = np.array([[link in tree for tree in trees] for link in links], float)
    found = milp(np.full(len(trees), -1.0), integrality=np.ones(len(trees)),
                 constraints=LinearConstraint(uses, ub=[rates[link] for link in links]))
    return {tree: round(units) for tree, units in zip(trees, found.x) if round(units)}


def main(pairs=DGX_1V):
    """Pack trees into the NVLinks of eight V100s, from each root."""
    rates = directed(pairs)
    for root in sorted({node for link in rates for node in link}):
        best = sum(rate for (_, to), rate in rates.items() if to == root)  # of the links at the root: the upper limit
        many = many_trees(rates, root)
        few = few_trees(rates, many)
        print(f"root {root}: {len(many)} trees of rate {sum(many.values()):.2f}; {len(few)} trees of rate "
              f"{sum(few.values())}; at most {best} leave the root")


if __name__ == "__main__":
    main()
