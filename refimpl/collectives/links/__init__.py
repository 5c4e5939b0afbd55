"""Trees for the links that are there: how fast a network can sum or share at all, and the trees that do.

    graph      a network as data: ranks, switches, directed links and their rates      named     well-known ones
    flow       largest flow and smallest cut                                           optimum   the rate, its proof
    switches   links through a switch become links between ranks                        grow      spanning trees
    allreduce  how sum and answer divide the links                                      programme its linear programme
    canonical  the same for sums in the order of the microbatch tree
    pack       all of it, in one call                                                  schedule  a packing as rounds
"""

from refimpl.handed_on import handed_on

_HOME = {
    **dict.fromkeys(("Links", "read_links"), "refimpl.collectives.links.graph"),
    **dict.fromkeys(("NAMED", "named_links"), "refimpl.collectives.links.named"),
    # each loaded when it is first asked for: these need SciPy, which takes its time to load
    **dict.fromkeys(("Packing", "Tree", "pack_canonical", "pack_trees"), "refimpl.collectives.links.pack"),
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = handed_on(__name__, _HOME)
