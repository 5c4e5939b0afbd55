"""Segments under way together: persistent requests in lanes, and the loop that moves them on as they complete."""

from typing import NamedTuple

import numpy as np
from mpi4py import MPI

from refimpl.transport.waiting import Wait


class BoundStep(NamedTuple):
    """A step on memory: its inactive persistent requests, the peer of each, and its sums as (into, other) views."""

    requests: list
    peers: list
    sums: list


class Pipeline:
    """Lanes of steps; a lane takes one after the other, all lanes at once. Local to make and to close.

    lanes: lists of segments' Steps, in order.  view(lane, piece) -> contiguous array.  Messages of lane j bear the tag
    1 + j, so that they are matched within their lane (tag 0 is ``Communicator.exchange``'s).
    """

    def __init__(self, comm, lanes, view, what: str):
        self.comm, self.what = comm, what
        self.lanes = [[self._bind(step, lane, view) for step in steps] for lane, steps in enumerate(lanes)]

    def _bind(self, step, lane, view):
        comm, tag = self.comm.mpi, 1 + lane
        requests = [comm.Recv_init(view(lane, piece), peer, tag) for peer, piece in step.receives]
        requests += [comm.Send_init(view(lane, piece), peer, tag) for peer, piece in step.sends]
        peers = [peer for peer, _ in step.receives + step.sends]
        return BoundStep(requests, peers, [(view(lane, into), view(lane, other)) for into, other in step.sums])

    def run(self):
        """Take every lane through all its steps. Collective over the ranks concerned. Raises SilentPeer."""
        position, missing = [-1] * len(self.lanes), [0] * len(self.lanes)
        active, of_lane = [], []  # requests under way, and the lane of each
        wait = Wait(self.comm.patience, lambda: self._late(position), self.comm.rank, self.what, self,
                    self.comm.notices.heed)
        for lane in range(len(self.lanes)):
            self._advance(lane, position, missing, active, of_lane)
        while active:
            done = MPI.Prequest.Testsome(active)
            if not done:
                wait.pause()
                continue
            wait.progress()
            ready = []
            for index in sorted(done, reverse=True):
                active.pop(index)
                lane = of_lane.pop(index)
                missing[lane] -= 1
                if not missing[lane]:
                    ready.append(lane)
            for lane in sorted(ready):
                self._advance(lane, position, missing, active, of_lane)

    def _advance(self, lane, position, missing, active, of_lane):
        """Finish the lane's step, whose messages are through, and start the next one that has messages."""
        steps = self.lanes[lane]
        while position[lane] < len(steps):
            if position[lane] >= 0:
                for into, other in steps[position[lane]].sums:
                    np.add(into, other, out=into)
            position[lane] += 1
            if position[lane] < len(steps) and steps[position[lane]].requests:
                requests = steps[position[lane]].requests
                for request in requests:
                    request.Start()
                active.extend(requests)
                of_lane.extend([lane] * len(requests))
                missing[lane] = len(requests)
                return

    def _late(self, position):
        """Yield the peers of messages that are not through."""
        for steps, at in zip(self.lanes, position):
            if at < len(steps):
                yield from (peer for request, peer in zip(steps[at].requests, steps[at].peers) if not request.Test())

    def close(self):
        """Free the requests, all of them inactive."""
        if MPI.Is_finalized():
            return
        for steps in self.lanes:
            for step in steps:
                for request in step.requests:
                    request.Free()
        self.lanes = []
