"""Memory: the bytes that a rank of a 1 x K mesh allocates for VGG-16 at its true size, beside the formula.

    (P_whole + P_cut / K) (1 value + 1 gradient + slots)                                SplitBrain's, in elements
    + P_whole (log2(V / N) - 1) + P_cut / K (log2(V / G) - 1)                           the tree's other arenas, ours

V microbatches are the leaves of the tree. Adding L leaves in the tree's order needs log2(L) arenas at once.
"""

from kernels.update import OPTIMIZERS
from refimpl.experiments.cells.report import Finding, Table, bytes_of
from refimpl.experiments.job import measure
from refimpl.experiments.mesh.nets import make_net
from refimpl.plan.layers.sent import held_and_whole

VGG16 = {"kind": "vgg", "image_shape": [224, 224, 3], "classes": 1000, "stages": [2, 2, 3, 3, 3], "width": 64,
         "connected": [4096, 4096], "blocks": 8}
SMALL = "VGG-16, 32 x 32, 10 classes"
NETS = {"VGG-16, 224 x 224, 1000 classes": VGG16, "VGG-16, 224 x 224, 10 classes": {**VGG16, "classes": 10},
        SMALL: {**VGG16, "image_shape": [32, 32, 3], "classes": 10}}
MEMBERS, MICROBATCHES, OPTIMIZER, SIZE = (1, 2, 4, 8), 64, "momentum", 4
THREE = ("values", "gradients", "state")


def study(quick: bool = False) -> Finding:
    """Allocate each network on 1, 2, 4, 8 ranks of this machine. quick: the smallest one, on 1 and 4. Local."""
    wanted = {"microbatches": MICROBATCHES, "optimizer": OPTIMIZER}
    found = {(name, members): measure("refimpl.experiments.mesh.ranks:allocate", {"net": NETS[name], **wanted}, members,
                                      timeout=300)
             for name in ([SMALL] if quick else NETS) for members in ((1, 4) if quick else MEMBERS)}
    return finding({name: make_net(net).layers for name, net in NETS.items()}, found)


def formula(layers, members: int, microbatches: int = MICROBATCHES, optimizer: str = OPTIMIZER) -> dict:
    """Return the bytes of a rank of a 1 x K mesh, by purpose. V is a power of two, and K divides it. Local."""
    def others(leaves: int) -> int:
        """Return how many arenas a tree with this number of leaves needs, besides the one that holds the sum."""
        return max(1, leaves.bit_length() - 1) - 1

    cut, whole = held_and_whole(layers, members)
    held, arenas = SIZE * (cut + whole), whole * others(microbatches // members) + cut * others(microbatches)
    return {"values": held, "gradients": held, "state": held * len(OPTIMIZERS[optimizer].state),
            "arenas": SIZE * arenas}


def finding(layers: dict, found: dict) -> Finding:
    """Return the tables. layers: of each network.  found: (network, K) -> what each rank holds. Local."""
    rows, wrong = [], []
    for (name, members), ranks in found.items():
        alone, predicted, first = formula(layers[name], 1), formula(layers[name], members), ranks[0]
        wrong += [f"{name}, K = {members}, {what}: {rank[what]:,} bytes, formula {int(count):,}"
                  for rank in ranks for what, count in predicted.items() if rank[what] != count]
        counted = sum(first[what] for what in predicted)
        rows.append([name, str(members), *(bytes_of(first[what]) for what in predicted), saved(first, alone, THREE),
                     saved(first, alone, predicted), bytes_of(first["scratch"]), bytes_of(first["grown"]),
                     f"{first['grown'] / counted - 1:+.2%}"])
    slots = len(OPTIMIZERS[OPTIMIZER].state)
    return Finding("Memory: allocated, beside the formula", [Table(
        f"What rank 0 of a 1 x K mesh holds, {OPTIMIZER} ({slots} slot), V = {MICROBATCHES}",
        ["network", "K", "values", "gradients", "state", "other arenas", "saved of the three", "with arenas",
         "messages' scratch", "resident", "beside the arrays"], rows)], [
        "NOT the formula: " + "; ".join(wrong[:4]) if wrong else
        "Values, gradients, state and other arenas are the formula's on every rank, to the byte.",
        "Allocated under mpirun, K ranks at once: parameters and optimizer state are opened as a training does, and a "
        "step's leaves are pushed into the trees, which makes every arena of a step; nothing is computed. Resident is "
        "the kernel's count of what the process grew by; scratch is made, and touched by the first message.",
        'SplitBrain\'s abstract: "saving up to 67% of memory consumption" for VGG on CIFAR10. Ours is consistent with '
        "it where the true-size VGG-16 with 10 classes is cut over 4 (the three of values, gradients and state); the "
        "abstract does not say which sizes or K it means.",
        "The other arenas are the price of one answer on every mesh: microbatch gradients are added up in the tree's "
        "order. A training also holds its activations, which no formula here counts."])


def saved(held: dict, alone: dict, kinds) -> str:
    """Return the part of these kinds' bytes that a rank saves, compared with one alone. Local."""
    return f"{1 - float(sum(held[what] for what in kinds) / sum(alone[what] for what in kinds)):.1%}"
