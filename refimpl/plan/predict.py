"""Predicted seconds of a plan's exchanges on a network, and what each variable adds to them.

    seconds of a step = sum over what travels together (each strategy) of
        summed by allreduce   the schedule, simulated (collectives/simulation), + work
        as messages           sum over its rounds (traffic.py) of (latency + overhead x the busiest rank's messages
                              + max over machines of bytes / bandwidth, out or in, through the card or in memory) + work
                              (the server's row numbers and how many they are: one message, one latency)

    work = bytes that the busiest rank adds up and updates / the network's reduction speed

The maximum over machines is what makes an owner's card a hot spot. Not in it: computation, what overlaps with it, and
what is the same for every plan (loss, norm). Predictions compare strategies; they are not a step's time.
"""

from functools import lru_cache

import numpy as np

from refimpl.collectives.choose import make_schedule
from refimpl.collectives.running.segments import segments_of
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.simulate import simulate
from refimpl.plan.cost import INSIDE, together
from refimpl.plan.plan import Plan
from refimpl.plan.sample import Sample
from refimpl.plan.traffic import Traffic, traffic_of

MOST_SEGMENTS = 16  # simulated of a vector: more change nothing but the time that it takes


class AllreduceTime:
    """Seconds and bytes of a schedule on a network for any number of elements. Local.

    Between powers of two the time is interpolated: then a search among plans simulates a dozen sizes, not thousands.
    """

    def __init__(self, algorithm: str, network: Network, microbatches: int, itemsize: int):
        machines = network.machines if algorithm == "hierarchical" else None
        self.schedule = make_schedule(algorithm, network.ranks, microbatches, machines=machines)
        self.network, self.itemsize = network, itemsize
        self._at = lru_cache(maxsize=None)(self._simulated)

    def seconds(self, elements: int) -> float:
        """Return the predicted seconds of an allreduce of so many elements."""
        if elements == 0 or self.network.ranks == 1:
            return 0.0
        below = 1 << (elements.bit_length() - 1)
        low, high = self._at(below), self._at(2 * below)
        return low + (high - low) * (elements - below) / below

    def card_bytes(self, elements: int) -> int:
        """Return the bytes through the busiest machine's card, in and out; of memory where there is one machine."""
        if len(self.network.machines) == 1:
            bounds = self.schedule.bounds(elements)
            return self.itemsize * sum(bounds[t.stop] - bounds[t.start]
                                       for step in self.schedule.rounds for t in step.transfers)
        found = simulate(self.schedule, self.network, elements, self.itemsize)
        return int((found.bytes_out + found.bytes_in).max())

    def _simulated(self, elements):
        segments = segments_of(self.schedule, elements, self.itemsize, len(self.network.machines))
        return simulate(self.schedule, self.network, elements, self.itemsize, min(segments, MOST_SEGMENTS)).seconds


class Predictor:
    """Predicts plans of these variables on this network. Local.

    sample: rows that the training touches.  Plans must be of the network's machines.
    """

    def __init__(self, variables, sample: Sample, network: Network):
        self.variables, self.sample, self.network = list(variables), sample, network
        self.known: dict[tuple, Traffic] = {}
        self.times: dict[tuple, AllreduceTime] = {}

    def seconds(self, plan: Plan) -> float:
        """Return the predicted seconds of all exchanges of a step."""
        return sum(self.by_strategy(plan).values())

    def by_strategy(self, plan: Plan) -> dict[type, float]:
        """Return strategy's class -> predicted seconds of what travels together."""
        return {strategy: self._together(plan, strategy, placed)
                for strategy, placed in together(plan, self.variables)}

    def alone(self, plan: Plan, variable) -> float:
        """Return the predicted seconds of one variable that travels by itself."""
        return sum(self._together(plan, strategy, placed) for strategy, placed in together(plan, [variable]))

    def without_bytes(self, plan: Plan, variable) -> float:
        """Return the part of ``alone``, of a variable that goes as messages, that no row adds to: latency, messages."""
        return seconds_of(self._traffic(plan, variable, plan.strategies[variable.name]), self.network, False)

    def card_bytes(self, plan: Plan, variable) -> int:
        """Return the bytes of one variable and step through the card that has most of them, in and out.

        Where there is one machine: the bytes between its ranks. Of a variable that is two in one: both parts' added up.
        """
        return sum(self._card_bytes(plan, strategy, placed[0]) for strategy, placed in together(plan, [variable]))

    def _card_bytes(self, plan, strategy, part):
        layout = strategy.arena([part[0]])
        if layout is not None:
            return self._time(plan, layout).card_bytes(layout.size)
        traffic = self._traffic(plan, *part)
        several = len(self.network.machines) > 1
        return round(float((traffic.through_cards() if several else traffic.inside_machines()).max()))

    def _together(self, plan, strategy, placed):
        layout = strategy.arena([variable for variable, _ in placed])
        if layout is None:
            traffics = [self._traffic(plan, *part) for part in placed]
            return seconds_of(sum(traffics[1:], traffics[0]), self.network)
        work = sum(value.work(variable, plan, self.sample) for variable, value in placed)
        return self._time(plan, layout).seconds(layout.size) + float(work.max()) / self.network.reduction

    def _time(self, plan, layout) -> AllreduceTime:
        key = plan.allreduce, plan.microbatches, np.dtype(layout.dtype).itemsize
        if key not in self.times:
            self.times[key] = AllreduceTime(plan.allreduce, self.network, plan.microbatches, key[2])
        return self.times[key]

    def _traffic(self, plan, variable, strategy) -> Traffic:
        # by shape, too: hot rows cut one variable in two at many places
        key = variable.name, variable.shape, strategy, plan.local_aggregation
        if key not in self.known:
            self.known[key] = traffic_of(variable, strategy, plan, self.sample)
        return self.known[key]


def seconds_of(traffic: Traffic, network: Network, bytes_count: bool = True) -> float:
    """Return the predicted seconds of traffic that travels together. bytes_count: False: as if nothing moved. Local."""
    total = float(traffic.work.max()) / network.reduction if bytes_count else 0.0
    for name, messages in traffic.messages.items():
        if not messages.any():
            continue
        if name[1] != "indices" or (name[0], "control") not in traffic.messages or name[0] == "allgather":
            # the server's row numbers travel in the message that says how many they are (server/row_numbers.py)
            crosses = len(network.machines) > 1 and name[0] not in INSIDE
            total += network.latency if crosses else network.latency_within
            total += network.overhead * float(messages.max())
        if bytes_count:
            total += float(max((traffic.sent[name] / network.bandwidth_out).max(),
                               (traffic.received[name] / network.bandwidth_in).max(),
                               (traffic.within[name] / network.memory_bandwidth).max()))
    return total
