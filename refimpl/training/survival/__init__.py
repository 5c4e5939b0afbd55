"""A training that continues when ranks die, and ends with the same bits as if none had died.

    decisions   which rank keeps a copy for which, computes what and sends which rows; which rows are lost: plain data
    undo        restores what the steps since the last commit have changed; sums that are not computed again
    backup      copies, on a partner, of what one rank alone keeps
    memory      the state on the living ranks, from which a training on fewer ranks continues
    session     commits every K steps, and continues from the last commit when a rank has died

The plain version: ``refimpl.plain.training.survive``.
"""
