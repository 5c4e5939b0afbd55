"""The mesh: N = G x K ranks, in G groups of K neighbours. A cut layer's k-th part lies on the k-th member of each group.

    2 x 2      member 0   member 1
    group 0     rank 0     rank 1      a group holds the whole layer
    group 1     rank 2     rank 3
                holders of one part
"""

import re
from typing import NamedTuple


class Mesh(NamedTuple):
    """data: G, how many groups.  model: K, how many ranks in each."""

    data: int
    model: int

    @classmethod
    def of(cls, text: str, ranks: int) -> "Mesh":
        """Return what "2x2" says of so many ranks. Raises ValueError, with the meshes that there are. Local."""
        match = re.fullmatch("([1-9][0-9]{0,8})x([1-9][0-9]{0,8})", text)
        mesh = cls(*map(int, match.groups())) if match else None
        if mesh is None or mesh.data * mesh.model != ranks:
            told = "it should read DATAxMODEL" if mesh is None else f"that is {mesh.data * mesh.model} ranks"
            possible = ", ".join(f"{ranks // k}x{k}" for k in range(1, ranks + 1) if ranks % k == 0)
            raise ValueError(f"--mesh {text}: {told}, and there are {ranks}: give {possible}")
        return mesh

    def __str__(self):
        return f"{self.data}x{self.model}"

    @property
    def size(self) -> int:
        """N."""
        return self.data * self.model

    def member(self, rank: int) -> int:
        """Return which part of a cut layer a rank holds. Local."""
        return rank % self.model

    def group(self, rank: int) -> range:
        """Return the ranks of a rank's group. Local."""
        first = rank - rank % self.model
        return range(first, first + self.model)

    def holders(self, rank: int) -> range:
        """Return the ranks that hold the same part as a rank. Local."""
        return range(rank % self.model, self.size, self.model)
