"""A training whose ranks can do without those that die, and that ends with the bits of one in which nobody died.

    decisions   who keeps a copy for whom, computes what, hands which rows to whom; which rows are lost: plain data
    formed      sums of gradients that are not computed again
    undo        what the steps since the last commit have changed, to be put back
    backup      copies of what one rank alone keeps, at its partner
    memory      the state that the living ranks have, as a training on fewer ranks restores it
    session     a session that commits every so many steps, and goes on from the last commit when a rank has died

Plainly: ``refimpl.plain.survive``.
"""
