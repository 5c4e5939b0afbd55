"""The mesh: N = G x K ranks, in G groups of K neighbours. Member k of each group keeps part k of each cut layer.

    2 x 2      member 0   member 1
    group 0     rank 0     rank 1      a group has the whole layer
    group 1     rank 2     rank 3
                holders of one part
"""

import math
import re
from dataclasses import replace
from typing import NamedTuple

from refimpl.plan.strategy import strategy_of
from refimpl.words import counted


class Mesh(NamedTuple):
    """data: G, the number of groups.  model: K, the number of ranks in each."""

    data: int
    model: int

    @classmethod
    def of(cls, text: str, ranks: int) -> "Mesh":
        """Return the mesh "2x2" of ``ranks`` ranks. Raises ValueError, which lists the possible meshes. Local."""
        match = re.fullmatch("([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text)
        mesh = cls(*map(int, match.groups())) if match else None
        if mesh is None or mesh.data * mesh.model != ranks:
            told = "it should read DATAxMODEL" if mesh is None else f"that is {counted(mesh.data * mesh.model, 'rank')}"
            possible = ", ".join(f"{ranks // k}x{k}" for k in range(1, ranks + 1) if ranks % k == 0)
            raise ValueError(f"--mesh {text}: {told}, and there are {ranks}: give {possible}")
        return mesh

    def __str__(self):
        return f"{self.data}x{self.model}"

    def rounds(self, microbatches: int) -> int:
        """Return the number of rounds in which a group takes V microbatches, equally many of each rank. Local.

        It is K if K divides V / N (SplitBrain). Fewer microbatches need fewer rounds: then products have more rows, and
        members exchange less often. The bits do not depend on it.
        """
        return math.gcd(microbatches // self.size, self.model)

    @property
    def size(self) -> int:
        """N, the number of ranks."""
        return self.data * self.model

    def member(self, rank: int) -> int:
        """Return the number of the part of a cut layer that a rank keeps. Local."""
        return rank % self.model

    def group(self, rank: int) -> range:
        """Return the ranks of a rank's group. Local."""
        first = rank - rank % self.model
        return range(first, first + self.model)

    def holders(self, rank: int) -> range:
        """Return the ranks that keep the same part as this rank. Local."""
        return range(rank % self.model, self.size, self.model)


def with_mesh(plan, variables, text: str | None):
    """Return the plan on a mesh, such as "2x2": layers with enough column blocks are cut. None: the plan itself. Local.

    Raises ValueError, with possible meshes, if ranks, blocks or microbatches do not fit.
    """
    if text is None:
        return plan
    mesh = Mesh.of(text, plan.ranks)
    if mesh.model == 1:
        return plan
    cut = [v for v in variables if v.blocks > 1]
    if not cut:
        raise ValueError(f"--mesh {text}: no layer of this model is computed in column blocks; say {plan.ranks}x1, or "
                         "train a model that has such layers")
    if whole := [v for v in cut if v.blocks % mesh.model]:
        most = min(v.blocks for v in cut)
        possible = [f"{plan.ranks // k}x{k}" for k in range(1, most + 1) if most % k == 0 and plan.ranks % k == 0]
        more = "" if mesh.model & (mesh.model - 1) else ", or give the model more blocks (--set blocks=S)"
        raise ValueError(f"--mesh {text}: {mesh.model} ranks cannot share the {whole[0].blocks} column blocks of "
                         f"{whole[0].name!r} evenly; with {plan.ranks} ranks give {', '.join(possible)}{more}")
    columns = strategy_of("columns", False)
    placed = plan.replaced({v.name: columns(mesh.model, codec=plan.strategies[v.name].codec) for v in cut})
    return check_mesh(replace(placed, mesh=tuple(mesh)), variables)


def check_mesh(plan, variables):
    """Return the plan if its mesh and placements fit. Raises ValueError, with possible choices. Local."""
    cut, mesh = cut_of(plan, variables), plan.on_mesh
    if mesh.size != plan.ranks or min(mesh) < 1:
        raise ValueError(f"plan: the mesh {mesh} has {counted(mesh.size, 'rank')}, the plan {plan.ranks}")
    if mesh.model == 1 and not cut:
        return plan
    for name, members in ((v.name, plan.strategies[v.name].members) for v in cut):
        if members != mesh.model:
            raise ValueError(f"plan: {name} is cut over {counted(members, 'rank')}, and a group of the mesh {mesh} has "
                             f"{mesh.model}: make the two numbers equal")
    if not cut:
        raise ValueError(f"plan: the mesh is {mesh}, but no variable has the strategy columns: cut one, or say "
                         f"{plan.ranks}x1")
    if plan.microbatches % plan.ranks:
        raise ValueError(f"on the mesh {mesh} all ranks must have equally many microbatches: "
                         f"{plan.microbatches} cannot be divided by {plan.ranks} ranks; give --microbatches "
                         f"{' or '.join(map(str, nearest(plan.microbatches, plan.ranks)))}")
    if plan.architecture == "ps":
        raise ValueError(f"the mesh {mesh} works only with --architecture allreduce, hybrid or auto: the parts of "
                         "a layer stay on the ranks of a group, not on a server")
    _check_chain(cut)
    return plan


def nearest(count: int, unit: int) -> list[int]:
    """Return the nearest positive multiples of ``unit`` below and above a count, rising. Local."""
    return sorted({max(1, count // unit) * unit, -(-count // unit) * unit})


def _check_chain(cut):
    """Raise ValueError unless the cut variables are weights and biases of layers that follow each other."""
    weights, names = layers_of(cut), {v.name for v in cut}
    for v in cut:
        layer, _, what = v.name.rpartition(".")
        if {f"{layer}.weight", f"{layer}.bias"} - names:
            other = "weight" if what == "bias" else "bias"
            raise ValueError(f"plan: {v.name} is cut into columns without its {other}: cut "
                             f"both variables of {layer}, or none")
    for above, below in zip(weights, weights[1:]):
        if below.shape[1] != above.shape[0]:
            raise ValueError(f"plan: {above.name} and {below.name} are cut into columns, but a layer between them "
                             "is not: cut layers that follow each other")


def cut_of(plan, variables) -> list:
    """Return the variables of which each member of a group keeps a part, in the model's order. Local."""
    return [v for v in variables if plan.strategies[v.name].in_groups]


def layers_of(variables) -> list:
    """Return the weights among the variables of cut layers, in the model's order. Local."""
    return [v for v in variables if len(v.shape) == 2]
