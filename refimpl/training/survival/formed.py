"""The sums of gradients that a rank has formed in a step. If the step is undone, they are not computed again."""

import numpy as np


def copied(carried: dict[int, dict]) -> dict[int, dict]:
    """Return a copy of the states of microbatches: V -> NAME -> array. Local."""
    return {v: {name: np.array(array) for name, array in state.items()} for v, state in carried.items()}


class Formed:
    """What a rank has computed in step ``number`` (from 0) before any exchange. Local.

    losses: (microbatch, loss).  sums: of each exchange, node -> variable -> sum.  carried: microbatch -> state after
    the step, for all microbatches of this rank.
    """

    def __init__(self, number: int, losses, sums: list[dict], carried: dict[int, dict]):
        self.number, self.losses, self.states = number, dict(losses), copied(carried)
        self.nodes: dict = {}
        for formed in sums:
            for node, by_name in formed.items():
                self.nodes.setdefault(node, {}).update(by_name)
        self.first = {node.first_leaf: node for node in self.nodes}

    def has(self, number: int, microbatch: int) -> bool:
        """Return whether the sums include a microbatch of this step."""
        return number == self.number and microbatch in self.states

    def use(self, microbatch: int, batch, exchanges) -> list:
        """Add the sums instead of computing a microbatch; return [(microbatch, loss)], or [] without examples.

        exchanges: of the step. Microbatches must come in order.
        """
        node = self.first.get(microbatch)
        exchanges.put(microbatch, node, self.nodes.get(node))
        if batch is None:
            return []
        batch.state.clear()
        batch.state.update(copied({microbatch: self.states[microbatch]})[microbatch])
        return [(microbatch, self.losses[microbatch])]
