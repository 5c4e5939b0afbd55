"""Several segments under way at once: each has a lane of prepared messages, and continues when they have arrived."""

from operator import iadd
from typing import NamedTuple

from refimpl.transport.protocol import Prepared, Transport


class BoundStep(NamedTuple):
    """A step with arrays: its messages, or None, and then its sums as (into, other) views."""

    messages: Prepared | None
    sums: list


class Pipeline:
    """Lanes of steps. A lane does its steps one after the other; all lanes run at once. The constructor is local.

    lanes: lists of segments' Steps, in order.  view(lane, piece) -> contiguous array.  what: its name in errors.
    first_lane: the first of the transport's lanes. Pipelines that are under way at the same time have different lanes.
    add(into, other): adds to an array, in place.
    On a GPU the host only launches the work, in this order.
    """

    def __init__(self, transport: Transport, lanes, view, what: str, first_lane: int = 0, add=iadd):
        self.transport, self.first_lane, self.add = transport, first_lane, add
        self.under_way: dict[Prepared, tuple] = {}  # messages -> (the lane's next steps, sums before them)
        self.lanes = [[self._bind(step, lane, view, what) for step in steps] for lane, steps in enumerate(lanes)]
        in_one_call = getattr(transport, "in_one_call", None) if len(lanes) == 1 and add is iadd else None
        self.in_one_call = in_one_call and in_one_call(self.lanes[0])

    def run(self):
        """Do all steps of every lane. Collective over the ranks of the schedule. Raises SilentPeer, Aborted."""
        if self.in_one_call:
            return self.in_one_call()
        self.begin()
        self.finish()

    def begin(self):
        """Begin every lane's first step; ``finish`` completes them. Collective over the ranks of the schedule."""
        self.under_way = {}
        for lane in self.lanes:
            self._go_on(iter(lane), ())

    def advance(self) -> bool:
        """Continue all lanes as far as possible without waiting; return whether any has continued. Local."""
        moved = False
        while self.under_way and (through := self.transport.test_some(list(self.under_way))):
            for messages in through:
                self._go_on(*self.under_way.pop(messages))
            moved = True
        return moved

    def finish(self):
        """Finish all lanes. Collective. Raises SilentPeer, Aborted."""
        while self.under_way:
            for messages in self.transport.wait_some(list(self.under_way)):
                self._go_on(*self.under_way.pop(messages))

    def close(self):
        """Free the messages. None may be under way, unless ranks have died."""
        for steps in self.lanes:
            for step in steps:
                if step.messages is not None:
                    step.messages.free()
        self.lanes, self.in_one_call = [], None

    def _bind(self, step, lane, view, what):
        sends, receives = ([(peer, view(lane, piece)) for peer, piece in some] for some in (step.sends, step.receives))
        messages = self.transport.prepare(sends, receives, what, self.first_lane + lane) if sends or receives else None
        return BoundStep(messages, [(view(lane, into), view(lane, other)) for into, other in step.sums])

    def _go_on(self, steps, sums):
        """Add up, then start the lane's next messages. steps: an iterator over the remaining steps."""
        for into, other in sums:
            self.add(into, other)
        for messages, sums in steps:
            if messages is not None:
                messages.start()
                self.under_way[messages] = steps, sums
                return
            for into, other in sums:
                self.add(into, other)
