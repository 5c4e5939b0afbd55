"""Cut a rank's part of a schedule into segments that can be under way at the same time.

    chunk 0           chunk 1           Each chunk is cut into S pieces. Segment k is the k-th piece of every chunk, and
    |0 |1 |2 |        |0 |1 |2 |        does the whole schedule by itself: segment 1 travels while 0 is added up.

Every element keeps its chunk, and so its owner, its order of addition and its bits. As many bytes are sent as
``Schedule.elements_sent`` says.
"""

from typing import NamedTuple

from refimpl.collectives.schedule import Schedule

# This keeps a link busy while a segment is added up. More bytes would fill the network's queues, which then drop them.
# Measured at 200 Mbit/s, 4 machines, 4 MiB, direct and halving-doubling: 0.99 of line rate (pieces of 64 KiB), with
# twice as much 0.95 and 0.94, with 4 times as much 0.86 and 0.88.
SEGMENT_BYTES = 192 * 1024  # bytes that a rank sends in a round in which it sends a piece to every rank
LANES = 3  # segments under way together


def lanes_of(schedule: Schedule) -> int:
    """Return the number of segments under way at once. Trees have more, because their links wait for each other.

    Measured with 4 rounds on 4 machines at 200 Mbit/s, one of them at 100, with 16 MiB: 1.9 s with 3 lanes, 1.43 s with
    5, 1.42 s with 8.
    """
    return 2 * len(schedule.rounds) if "trees" in schedule.name else LANES


class SegmentPiece(NamedTuple):
    """Elements [start, stop) of slot ``slot``; the first of them lies in chunk ``chunk``."""

    slot: int
    chunk: int
    start: int
    stop: int


class RankRound(NamedTuple):
    """One rank's part of one round of one segment: all messages at once, then sums in order.

    receives, sends: (peer, SegmentPiece).  sums: (into, other), both SegmentPieces.
    """

    receives: tuple
    sends: tuple
    sums: tuple


def segments_of(schedule: Schedule, elements: int, itemsize: int, machines: int = 2) -> int:
    """Return the number of segments of a vector, the same on all ranks. Local.

    On one machine it is 1: the core that adds also copies the messages, so nothing could overlap.
    """
    if machines == 1:
        return 1
    longest = -(-elements // schedule.chunks)
    return max(1, longest * itemsize * max(1, schedule.ranks - 1) // SEGMENT_BYTES)


class Cut:
    """The pieces of a vector in ``segments`` segments. bounds: where chunks begin and end."""

    def __init__(self, bounds, segments: int):
        self.bounds, self.segments = bounds, segments

    def pieces(self, segment: int, slot: int, first: int, last: int) -> list[SegmentPiece]:
        """Return the pieces of chunks [first, last) of a slot in a segment, without empty ones."""
        if self.segments == 1:  # neighbouring chunks are one message
            whole = SegmentPiece(slot, first, self.bounds[first], self.bounds[last])
            return [whole] if whole.stop > whole.start else []
        pieces = [SegmentPiece(slot, chunk, self._edge(chunk, segment), self._edge(chunk, segment + 1))
                  for chunk in range(first, last)]
        return [piece for piece in pieces if piece.stop > piece.start]

    def longest(self, chunk: int) -> int:
        """Return the length of the longest piece of a chunk."""
        return -(-(self.bounds[chunk + 1] - self.bounds[chunk]) // self.segments)

    def _edge(self, chunk, segment):
        start, stop = self.bounds[chunk], self.bounds[chunk + 1]
        return start + segment * (stop - start) // self.segments


def steps_of(rounds, rank: int, ranks: int, cut: Cut, segment: int) -> list[RankRound]:
    """Return the part of ``rank`` in one segment, round by round, without rounds in which it does nothing. Local.

    Of messages to many peers, that to the next rank comes first, so that not all ranks send to rank 0 at once. Messages
    between two ranks keep the schedule's order, by which they are matched.
    """
    steps = []
    for step in rounds:
        receives = [(t.source, piece) for t in step.transfers if t.destination == rank
                    for piece in cut.pieces(segment, t.target, t.start, t.stop)]
        sends = [(t.destination, piece) for t in step.transfers if t.source == rank
                 for piece in cut.pieces(segment, t.origin, t.start, t.stop)]
        sums = [pair for s in step.sums if s.rank == rank
                for pair in zip(cut.pieces(segment, s.into, s.start, s.stop),
                                cut.pieces(segment, s.other, s.start, s.stop))]
        receives.sort(key=lambda message: (rank - message[0]) % ranks)
        sends.sort(key=lambda message: (message[0] - rank) % ranks)
        if receives or sends or sums:
            steps.append(RankRound(tuple(receives), tuple(sends), tuple(sums)))
    return steps
