"""A tensor channel: a rank writes into a slot that the plan reserved at another. Plain: ``plain.collectives.channel``.

    slots     TensorSlot, and Channel, the base class of the three ways below
    shared    ranks of one machine: the reader's slot lies in a shared window, and nobody calls MPI
    landing   a receive posted into the slot; sequence number and tensor travel in one message
    rma       MPI's one-sided access: put, flush, signal, flush
    flushes   flushes of MPI's one-sided access that end after a time-out
    messages  messages of exchanges, through a slot for each pair of ranks
    choice    the choice of a training's way
"""

NONE = "none"
CHANNELS = (NONE, "auto", "shared", "landing", "rma")
