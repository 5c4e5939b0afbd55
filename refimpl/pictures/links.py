"""The picture of trees packed into a network's links."""

from refimpl.collectives.links import Packing
from refimpl.collectives.links.draw import packing_figure
from refimpl.pictures.picture import STYLE, Picture, picture_of, table


def draw_links(packing: Packing, trees: int = 0) -> Picture:
    """Return the picture of a packing's links, how full they are, and its first ``trees`` trees. Local.

    A link is as wide as its rate. Blue links are full, orange ones partly used, grey ones not used.
    """
    import matplotlib

    shown = [["sum to" if tree.inward else "from", tree.root, tree.rate, " ".join("-".join(map(str, w)) for w in tree.ways)]
             for tree in packing.trees[:trees]]
    load = packing.load().values()
    alt = (f"{packing.links.name}: {packing.kind} at rate {packing.rate}; of {len(load)} links "
           f"{sum(part == 1 for part in load)} are full and {sum(part == 0 for part in load)} are not used")
    with matplotlib.rc_context({**STYLE, "figure.constrained_layout.use": False}):
        figure = packing_figure(packing, trees)
        return picture_of(figure, alt, table(["tree", "root", "rate", "ways"], shown) if shown else "")
