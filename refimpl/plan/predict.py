"""Predicts the seconds of a plan's exchanges on a network, and what each variable adds to them.

    seconds of a step = sum over variables that are exchanged together (each strategy) of
        allreduce   the simulated schedule (collectives/simulation) + work
        messages    sum over the rounds (Traffic) of (latency + overhead x messages of the busiest rank
                    + max over machines of bytes / bandwidth, out or in, of the card or of memory) + work
                    (the server sends row numbers, their count and few rows in one message: one latency)

    work = bytes that the busiest rank adds up and updates / reduction speed of the network
    codec: effort x bytes of the gradients of the busiest rank's microbatches / reduction speed

Because of the maximum over machines, an owner with many bytes makes the step slow. Left out are computation, overlap,
and messages that all plans have (loss, norm). So predictions compare strategies; they do not give the time of a step.
"""

from dataclasses import dataclass
from functools import lru_cache
from operator import add

import numpy as np

from refimpl.collectives.choose import by_machine
from refimpl.collectives.running.segments import lanes_of, segments_of
from refimpl.collectives.simulation.columns import MOST, PROVED, columns_of, to_predict
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.simulate import simulate
from refimpl.plan.between import Between
from refimpl.plan.codecs import encoded
from refimpl.plan.cost import INSIDE, machine_numbers, together
from refimpl.plan.partitions.parts import cut_lists
from refimpl.plan.plan import Plan
from refimpl.plan.sample import Sample
from refimpl.server.rounds import FIRST

MOST_SEGMENTS = 16  # of a vector that are simulated: more take longer and change nothing


class AllreduceTime:
    """Predicted seconds and bytes of a schedule on a network, for any number of elements. Local.

    Only powers of two are simulated; between them the time is interpolated. So a search among plans needs few
    simulations.
    """

    def __init__(self, algorithm: str, network: Network, microbatches: int, itemsize: int):
        machines = network.machines if by_machine(algorithm) else None
        self.schedule, _ = to_predict(algorithm, network.ranks, microbatches, machines)
        self.network, self.itemsize = network, itemsize
        self._at = lru_cache(maxsize=None)(self._simulated)

    def seconds(self, elements: int) -> float:
        """Return the predicted seconds of an allreduce of ``elements`` elements."""
        if elements == 0 or self.network.ranks == 1:
            return 0.0
        below = 1 << (elements.bit_length() - 1)
        low, high = self._at(below), self._at(2 * below)
        return low + (high - low) * (elements - below) / below

    def card_bytes(self, elements: int) -> int:
        """Return the bytes that enter and leave the busiest machine's card; on one machine, those between ranks."""
        table, places, total = columns_of(self.schedule), self.network.places(), 0
        bounds = table.bounds(elements)
        for step in table.rounds:
            sizes = self.itemsize * (bounds[step.stop] - bounds[step.start])
            places.count(step.source, step.destination, sizes)
            total += int(sizes.sum())
        return total if len(self.network.machines) == 1 else int(places.moved.sum(axis=0).max())

    def _simulated(self, elements):
        segments = segments_of(self.schedule, elements, self.itemsize, len(self.network.machines))
        most = max(MOST_SEGMENTS, 4 * lanes_of(self.schedule)) if self.network.ranks <= PROVED else MOST
        return simulate(self.schedule, self.network, elements, self.itemsize, min(segments, most)).seconds


@dataclass(frozen=True, eq=False)
class Traffic:
    """Bytes and messages of a step, by round: (phase, kind). All messages of a phase and kind form a round.

    The traffic of variables that are exchanged together is added up, but not their messages: small arrays between two
    ranks share a message (transport/packed.py), and for large ones the bytes decide.

    moved: round -> (3, M) bytes that leave each machine's card, enter it, and go between ranks of the machine.
    largest: round -> the most bytes from one rank to another.  messages: round -> (N,), sent and received by each rank.
    work: (N,) bytes that each rank adds up or updates.
    """

    moved: dict[tuple[str, str], np.ndarray]
    largest: dict[tuple[str, str], float]
    messages: dict[tuple[str, str], np.ndarray]
    work: np.ndarray

    def __add__(self, other: "Traffic") -> "Traffic":
        def joined(join, left, right):
            return {name: join(left.get(name, 0), right.get(name, 0)) for name in {**left, **right}}

        return Traffic(joined(add, self.moved, other.moved), joined(add, self.largest, other.largest),
                       joined(np.maximum, self.messages, other.messages), self.work + other.work)

    def by_itself(self, phase: str, kind: str) -> bool:
        """Return whether a round has its own messages: see ``server.row_numbers`` for arrays that share one."""
        if phase == "allgather" or (phase, "control") not in self.messages:
            return True
        along = sum(self.largest.get((phase, other), 0) for other in ("control", "indices", "rows"))
        return not (kind == "indices" or kind == "rows" and phase in ("push", "aggregate") and along <= FIRST)


def traffic_of(placed, plan, sample: Sample) -> Traffic:
    """Return the exact traffic of variables that one strategy sends as messages: the mean of the sampled steps. Local.

    placed: (variable, strategy) of each.
    """
    shared = type(placed[0][1])
    steps = len(sample.steps) if shared.sparse and sample.steps else 1
    rounds: dict[tuple[str, str], Between] = {}
    for i in range(steps):
        def touched(part, i=i):
            return (cut_lists(part, sample.pulled(i, part.name, plan.ranks)),
                    [cut_lists(part, own) for own in sample.pushed(i, part.name, plan.ranks)])

        for (phase, _, kind), matrix in shared.bytes_between(placed, plan, touched).items():
            if matrix.any():
                rounds[phase, kind] = Between.of(matrix) + rounds.get((phase, kind), 0)
    work = sum(strategy.work(variable, plan, sample) for variable, strategy in placed) + sum(
        sent.received() / steps for (phase, kind), sent in rounds.items()  # gradients, which the receiver adds up
        if phase in ("aggregate", "push", "allgather") and kind in ("rows", "dense"))
    times = max(strategy.message_rounds(variable, plan.ranks) for variable, strategy in placed)
    machine = machine_numbers(plan)
    return Traffic({name: sent.by_machine(machine) / steps for name, sent in rounds.items()},
                   {name: sent.largest() / steps for name, sent in rounds.items()},
                   {name: (times if name[1] == "rows" else 1) * sent.messages() for name, sent in rounds.items()}, work)


def speeds(network: Network) -> np.ndarray:
    """Return (3, M): bytes/s for each entry of ``Between.by_machine``'s result. Local."""
    return np.array([network.bandwidth_out, network.bandwidth_in, network.memory_bandwidth])


class Predictor:
    """Predicts the seconds of plans for these variables on this network. Local.

    sample: rows that the training touches.  The machines of a plan must be those of the network.
    """

    def __init__(self, variables, sample: Sample, network: Network):
        self.variables, self.sample, self.network = list(variables), sample, network
        self.known: dict[tuple, Traffic] = {}
        self.times: dict[tuple, AllreduceTime] = {}

    def seconds(self, plan: Plan, variables=None) -> float:
        """Return the predicted seconds of a step's exchanges. variables: as if only these were exchanged; None: all."""
        some, codecs = self.variables if variables is None else variables, encoded(plan)
        coding = sum(self._coding(plan, variable) for variable in some if variable.name in codecs)
        return coding + sum(self._together(plan, strategy, placed) for strategy, placed in together(plan, some))

    def without_bytes(self, plan: Plan, variable) -> float:
        """Return the part of ``seconds`` of one variable that does not depend on bytes: its messages' latency."""
        return seconds_of(self._traffic(plan, variable, plan.strategies[variable.name]), self.network, False)

    def card_bytes(self, plan: Plan, variable) -> int:
        """Return the bytes of a variable in and out of the busiest card in a step; on one machine, between ranks."""
        total = 0
        for part, strategy in plan.strategies[variable.name].parts(variable):
            if (layout := strategy.arena([part], strategy.coding)) is not None:
                total += self._time(plan, layout).card_bytes(layout.size)
                continue
            moved = sum(self._traffic(plan, part, strategy).moved.values(), np.zeros((3, len(self.network.machines))))
            total += round(float((moved[0] + moved[1]).max() if len(self.network.machines) > 1 else moved[2].sum()))
        return total

    def _coding(self, plan, variable) -> float:
        """Return the predicted seconds to encode and decode the gradients of a rank's microbatches."""
        touched = self.sample.alpha(variable.name, plan.microbatches) if variable.sparse and self.sample.steps else 1.0
        effort, each = plan.strategies[variable.name].coding.effort, -(-plan.microbatches // plan.ranks)
        return effort * each * touched * variable.nbytes / self.network.reduction

    def _together(self, plan, strategy, placed):
        layout = strategy.arena([variable for variable, _ in placed], placed[0][1].coding)
        if strategy.cut_together:
            return seconds_of(traffic_of(placed, plan, self.sample), self.network)
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
            self.known[key] = traffic_of([(variable, strategy)], plan, self.sample)
        return self.known[key]


def seconds_of(traffic: Traffic, network: Network, bytes_count: bool = True) -> float:
    """Return the predicted seconds of traffic. bytes_count: False counts only the latency of messages. Local."""
    total = float(traffic.work.max()) / network.reduction if bytes_count else 0.0
    for name, messages in traffic.messages.items():
        if not messages.any():
            continue
        if traffic.by_itself(*name):
            crosses = len(network.machines) > 1 and name[0] not in INSIDE
            total += network.latency if crosses else network.latency_within
            total += network.overhead * float(messages.max())
        if bytes_count:
            total += float((traffic.moved[name] / speeds(network)).max())
    return total
