"""Trees for the links that are there: how fast a network can sum or share at all, and the trees that do.

    graph      a network as data: ranks, switches, directed links and their rates      named     well-known ones
    flow       largest flow and smallest cut                                           optimum   the rate, its proof
    switches   links through a switch become links between ranks                        grow      spanning trees
    allreduce  how sum and answer divide the links                                      programme its linear programme
    canonical  the same for sums in the order of the microbatch tree
    pack       all of it, in one call                                                  schedule  a packing as rounds
"""

from refimpl.collectives.links.graph import Links, read_links
from refimpl.collectives.links.named import NAMED, named_links
from refimpl.collectives.links.pack import Packing, Tree, pack_canonical, pack_trees

__all__ = ["NAMED", "Links", "Packing", "Tree", "named_links", "pack_canonical", "pack_trees", "read_links"]
