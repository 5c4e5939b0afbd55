"""A rank's steps of a schedule on device arrays: each round's messages go together, then its sums are added up.

The host only says what is to be done; the device does it in this order. Rounds come in one order on all ranks, so that
transports which do one thing after the other never wait for each other in a circle.
"""


class DevicePipeline:
    """Steps of one lane, to be taken one after the other. Local to make and to close.

    steps: see ``segments.steps_of``.  view(piece) -> contiguous device array.  what: named in errors.
    """

    def __init__(self, comm, steps, view, what: str):
        self.comm, self.what = comm, what
        self.steps = [([(peer, view(piece)) for peer, piece in step.sends],
                       [(peer, view(piece)) for peer, piece in step.receives],
                       [(view(into), view(other)) for into, other in step.sums]) for step in steps]

    def run(self):
        """Take all steps. Collective over the ranks concerned. What is summed is there for the current stream."""
        for sends, receives, sums in self.steps:
            if sends or receives:
                self.comm.move(sends, receives, self.what).wait()
            for into, other in sums:
                into += other

    def close(self):
        """Let go of the arrays."""
        self.steps = []
