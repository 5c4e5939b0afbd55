"""Choose an allreduce: the algorithm that is predicted to be fastest among those with the reproducible order."""

from dataclasses import dataclass
from statistics import median

from refimpl.collectives.choose import ALGORITHMS, AUTO_ON, CANONICAL_TREES, MACHINE_TREES, by_machine
from refimpl.collectives.links.named import star_of
from refimpl.collectives.running.segments import segments_of
from refimpl.collectives.simulation.columns import AT_SCALE, MOST, PROVED, to_predict
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.places import GraphNetwork, ways_of
from refimpl.collectives.simulation.simulate import seconds_of
from refimpl.collectives.units import size_name
from refimpl.gradients import cover, leaves_of
from refimpl.transport.machines import Machines

MOST_FOR_TREES = 12
"""The most partial sums with which machines may begin. With more, packing trees takes too long."""
DIFFERENT = 0.8
"""Trees are considered if the slowest card has at most this part of the fastest one's rate: measurements vary, too."""

NEAR = 1.05
"""If sums overlap with computation, algorithms that are predicted to take up to so many times as long as the fastest
count as equal, and the one with the fewest rounds is taken. A rank that computes looks for messages only now and then,
so each round waits: docs/measured.md compares both for GPT-2.
"""

WRONG = 0.7
"""The choice warns if a link has less than this part of the rate in the network's description."""


@dataclass(frozen=True)
class AllreduceChoice:
    """The chosen algorithm and the reason.

    algorithm: its name.  predicted: name -> seconds of each possible one.  canonical: name -> whether it adds in the
    reproducible order; the others are only predicted.  reason: a sentence and a table.
    """

    algorithm: str
    predicted: dict[str, float]
    canonical: dict[str, bool]
    reason: str


def choose_algorithm(leaves: int, elements: int, itemsize: int, machines: Machines, network: Network | None,
                     shared_memory: bool = True, links: str = "", overlaps: bool = False) -> AllreduceChoice:
    """Choose for ``leaves`` microbatches and a vector of ``elements`` of ``itemsize`` bytes on these machines. Local.

    The same network always gives the same choice.  network: as calibrate measured it. It may be None if all ranks share
    one machine: then ranks read each other's arrays in place, unless ``shared_memory`` is False.  links: the name of a
    network. Then each rank must be a machine, and only this network's links are used, with their measured rates.
    overlaps: whether the sums begin during the computation, without a thread.
    Raises ValueError if network is of other machines, is None with several machines, or does not fit ``links``.
    """
    ranks = sum(map(len, machines))
    if links:
        return _on_links(links, leaves, elements, itemsize, machines, network)
    if len(machines) == 1:
        return AllreduceChoice("direct", {}, {"direct": True}, _one_machine(ranks, shared_memory))
    if network is None or network.machines != machines:
        raise ValueError("choose_algorithm: the network must be measured on these machines: calibrate(comm)")
    names = (*ALGORITHMS, *_trees_for(network, leaves)) if ranks <= PROVED else AT_SCALE
    best, predicted, canonical = _fastest(names, leaves, elements, itemsize, network, overlaps)
    if best is None:
        raise ValueError(f"--allreduce auto: no algorithm in reproducible order can be predicted quickly for {ranks} "
                         f"ranks and {leaves} microbatches; give a power of two of ranks, and as many microbatches")
    reason = _reason(best, predicted, canonical, elements * itemsize, network)
    return AllreduceChoice(best, predicted, canonical, reason)


def _fastest(names, leaves, elements, itemsize, network, overlaps=False):
    """Return (the fastest reproducible one, name -> seconds, name -> whether reproducible) of possible algorithms.

    overlaps: return one of few rounds, see NEAR.
    """
    predicted, canonical, rounds, machines = {}, {}, {}, network.machines
    for name in names:
        if name == "hierarchical" and len(machines) == network.ranks:
            continue  # no machine has several ranks
        try:
            schedule, same = to_predict(name, network.ranks, leaves, machines if by_machine(name) else None)
            segments = segments_of(schedule, elements, itemsize, len(machines))
            segments = segments if network.ranks <= PROVED else min(segments, MOST)
            predicted[name] = seconds_of(schedule, network, elements, itemsize, segments)
        except (ValueError, ArithmeticError):  # it does not work with these numbers or links, or no packing is proved
            continue
        canonical[name], rounds[name] = same, len(schedule.rounds)
    best = min(filter(canonical.get, predicted), key=predicted.get, default=None)  # the first of equals
    if overlaps and best is not None:
        near = [name for name in filter(canonical.get, predicted) if predicted[name] <= NEAR * predicted[best]]
        best = min(near, key=rounds.get)
    return best, predicted, canonical


def _on_links(name, leaves, elements, itemsize, machines, measured):
    """Choose among the algorithms that send only between ranks joined by a link, or by links through switches."""
    from refimpl.collectives.links import named_links  # SciPy loads slowly

    links, wish = named_links(name), f"--allreduce {AUTO_ON}{name}"
    if measured is None or not measured.links or len(machines) < measured.ranks or links.ranks != measured.ranks:
        raise ValueError(f"{wish}: each of the network's {links.ranks} ranks must be a machine of one rank, and at "
                         f"most 12 machines are measured link by link. There are {sum(map(len, machines))} ranks on "
                         f"{len(machines)} machines. Leave :{name} out, or name an algorithm")
    carried = {(a, b): measured.links[a][b] / float(min(map(links.rates.get, zip(way, way[1:]))))
               for (a, b), way in ways_of(links).items()}
    unit = median(carried.values())
    network = GraphNetwork(links, unit, measured.latency, measured.reduction, measured.overhead)
    best, predicted, canonical = _fastest((*ALGORITHMS, CANONICAL_TREES + name), leaves, elements, itemsize, network)
    if best is None:
        raise ValueError(f"{wish}: no algorithm in reproducible order uses only these links, and no trees were packed "
                         f"for {leaves} microbatches; name trees:NETWORK, which adds in another order")
    lines = [_reason(best, predicted, canonical, elements * itemsize, network), *_matrix(measured)]
    lines += [f"link {a} to {b} carries {part / unit:.2f} of what {name} says: correct the network, or look at the "
              "cable"
              for (a, b), part in carried.items() if not WRONG <= part / unit <= 1 / WRONG]
    return AllreduceChoice(best, predicted, canonical, "\n".join(lines))


def _trees_for(network, leaves) -> list[str]:
    """Return the name of trees for the network's cards, if their rates differ and there are few partial sums."""
    cards = _cards(network)
    nodes = sum(len(cover(sorted(leaf for rank in ranks for leaf in leaves_of(rank, network.ranks, leaves))))
                for ranks in network.machines)
    if max(len(cards), nodes) > MOST_FOR_TREES or not _differ(network):
        return []
    return [(CANONICAL_TREES if len(cards) == network.ranks else MACHINE_TREES) + star_of(cards)]


def _cards(network) -> list[float]:
    return list(map(min, network.bandwidth_out, network.bandwidth_in))


def _differ(network) -> bool:
    cards = _cards(network)
    return min(cards) <= DIFFERENT * max(cards)


def _one_machine(ranks, shared_memory) -> str:
    many = f"all {ranks} ranks share one machine" if ranks > 1 else "there is one rank"
    if not shared_memory:
        return f"allreduce auto: direct, as messages ({many}, but shared memory is switched off), in reproducible order"
    return f"allreduce auto: direct, through shared memory without a message ({many}), in reproducible order"


def _reason(best, predicted, canonical, size, network) -> str:
    """Return the reason as text: a line, then the candidates, fastest first."""
    many = f"{network.ranks} ranks on {len(network.machines)} machines"
    fastest = predicted[best] == min(predicted[name] for name in predicted if canonical[name])
    why = ("predicted fastest of those" if fastest else
           f"which has the fewest rounds of those predicted within {NEAR - 1:.0%} of the fastest")
    lines = [f"allreduce auto: {best}, {why} in reproducible order, for {size_name(size)} over {many} (latency "
             f"{network.latency * 1e6:.0f} us, {_speeds(network.bandwidth_out)} Mbit/s)"]
    width = max(18, *map(len, predicted))
    for name in sorted(predicted, key=predicted.get):
        note = "reproducible order" if canonical[name] else "another order: not taken"
        lines.append(f"  {'*' if name == best else ' '} {name:{width}} {predicted[name] * 1e3:10.3f} ms  {note}")
    if not any("trees:" in name for name in predicted) and _differ(network):
        lines.append(f"cards differ, but no trees were packed for them: machines begin with more than {MOST_FOR_TREES} "
                     "partial sums, or no packing was proved to be the best")
    table = _matrix(network) if isinstance(network, Network) and network.links and _differ(network) else []
    return "\n".join(lines + table)


def _matrix(network) -> list[str]:
    """Return lines with the measured rate of each link."""
    rows = ["  " + "".join(f"{speed / 125e3:8.4g}" if speed else "       -" for speed in row) for row in network.links]
    return ["rate of each link in Mbit/s, with a row for each machine that sends:", *rows]


def _speeds(bandwidths) -> str:
    slow, fast = (f"{bandwidth / 125e3:.4g}" for bandwidth in (min(bandwidths), max(bandwidths)))
    return slow if slow == fast else f"{slow} to {fast}"
