"""A training that goes on when ranks die, and ends with the same bits as if none had died.

    decisions   which rank keeps a copy for which, computes what and sends which rows; which rows are lost: plain data
    formed      sums of gradients that are not computed again
    undo        restores what the steps since the last commit have changed
    backup      copies, at its partner, of what one rank alone keeps
    memory      the state that the living ranks have, as a training on fewer ranks restores it
    session     commits every K steps, and goes on from the last commit when a rank has died

Plainly: ``refimpl.plain.survive``.
"""
