"""Trees over a network's links: the best rate at which it can sum or share data, and trees that reach this rate.

    graph      a network as data: ranks, switches, links and their rates       named      well-known networks
    flow       largest flow and smallest cut                                   optimum    the best rate, its proof
    switches   replaces links through a switch by links between ranks          grow       spanning trees
    allreduce  how sum and answer divide the links                             programme  a linear programme
    canonical  the same for sums in the reproducible order                     pack       all of this in one call
    schedule   a packing as rounds
"""

from refimpl.handed_on import handed_on

_HOME = {
    **dict.fromkeys(("Links", "read_links"), "refimpl.collectives.links.graph"),
    **dict.fromkeys(("NAMED", "named_links"), "refimpl.collectives.links.named"),
    # each is loaded when it is first used: these need SciPy, which loads slowly
    **dict.fromkeys(("Packing", "Tree", "pack_canonical", "pack_trees"), "refimpl.collectives.links.pack"),
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = handed_on(__name__, _HOME)
