"""Exercises of lesson 12: the sums that are lost with a rank, copies beside gradients, a partner on another machine."""

from refimpl.notebook.exercises import answered, exercise, number, right, wrong
from refimpl.plain.adding.tree import cover, microbatches_of
from refimpl.words import counted

VALUES = 100_000 // 8 * 64 * 4
"""Bytes of one owner's rows, of 8."""
GRADIENTS = 100_000 // 8 // 10 * (64 * 4 + 8)
"""Bytes of the gradients of every tenth of these rows, with row numbers."""
CLUSTERS = ((2, 1), (3, 2), (2, 4), (4, 8))
"""(machines, ranks on each)."""


@exercise
def check_nodes(gone):
    """Check which nodes of the tree over 8 microbatches only rank 1 of 3 had. gone: pairs (start, stop)."""
    nodes, wanted = sorted(map(tuple, gone)), cover(*microbatches_of(1, 3, 8))
    if nodes == wanted:
        return right("three leaves must be computed again; all other sums stay.")
    if nodes == [(2, 5)]:
        return wrong("2 + 3 + 4 is no node of the tree. Which node has 2 and 3, and which leaf is left?")
    if [v for node in nodes for v in range(*node)] == [2, 3, 4]:
        return wrong("these leaves are right, but the rank can already add up two of them: that is a node")
    return wrong("which microbatches does rank 1 have? Look at the picture of three ranks, and count from 0")


check_times = number(3 * VALUES / GRADIENTS, "copies of everything cost some 29 times as many bytes.", {
    VALUES / GRADIENTS: "what does the optimizer keep beside the rows? The plain program copies it, too",
    10: "must the fast program send what Adam keeps? The partner makes the same updates itself",
    30: "each row of gradients also has its row number",
    3 * VALUES / (10 * GRADIENTS): "the fast program sends only the rows that the step updates",
    GRADIENTS / (3 * VALUES): "the other way round: divide by the bytes of the fast program",
}, "the plain program: rows of one rank, with three numbers for each; the fast one: the updated rows' gradients",
    apart=0.01)
"""How many times as many bytes copies of one owner's rows have as the gradients of those that a step updates."""


@exercise
def check_partner(partner):
    """Check a function (rank, ranks, ranks on a machine) -> partner, with which any one machine may die."""
    for machines, each in CLUSTERS:
        ranks = machines * each
        partners = [answered(partner(rank, ranks, each)) for rank in range(ranks)]
        where = f"on {machines} machines of {counted(each, 'rank')}"
        if not all(0 <= other < ranks for other in partners):
            return wrong(f"{where} the partners are {partners}: ranks are 0 to {ranks - 1}. What comes after the last?")
        close = [rank for rank, other in enumerate(partners) if rank // each == other // each]
        if close:
            return wrong(f"{where} rank {close[0]} and its partner {partners[close[0]]} die with the same machine")
        if len({*partners}) < ranks:
            return wrong(f"{where} the partners are {partners}: one of them gets several copies")
    return right("any one machine may die, but not two neighbours.")
