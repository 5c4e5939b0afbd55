"""A tensor channel: one rank writes into a slot that the plan reserved at another. In plain: ``collectives.channel``.

    slots     TensorSlot, and Channel: what all three ways have in common
    shared    ranks of one machine: the reader's slot lies in a shared window, and nobody calls MPI
    landing   a receive posted into the slot; sequence number and tensor travel in one message
    rma       MPI's one-sided access: put, flush, signal, flush
    flushes   of MPI's one-sided access: none waits without an end
    messages  what exchanges move, through a slot for each pair of ranks
    choice    which way a training takes
"""

NONE = "none"
CHANNELS = (NONE, "auto", "shared", "landing", "rma")
