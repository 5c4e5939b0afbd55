"""Predict how long an allreduce takes on a network. Nothing is sent, so thousands of ranks take seconds."""

import argparse
import json

from refimpl.cli.told.tables import table_of
from refimpl.cli.asked.values import listed, nonempty, whole
from refimpl.collectives.units import BYTES, SECONDS, parse
from refimpl.words import counted

HELP = "predict time and bandwidth on a network, for up to thousands of ranks"
_ITEMSIZE = 4
RATE = "200mbit"
NETWORK_OPTIONS = {  # options beside --rate, in Network's order: name -> (units, default, help)
    "latency": (SECONDS, "50us", "latency between machines"),
    "latency-within": (SECONDS, "1us", "latency within a machine"),
    "memory": (BYTES, "5GB", "bytes that a machine copies in a second"),
    "reduction": (BYTES, "4GB", "bytes that a rank adds up in a second"),
    "overhead": (SECONDS, "0us", "processor time of a rank for each message"),
    "burst": (BYTES, "0", "bytes that an idle card sends at once, before its rate applies"),
}


def add(parser):
    """Add the options."""
    from refimpl.collectives.choose import ALGORITHMS

    parser.add_argument("algorithms", nargs="*", default=(), metavar="ALGORITHM",
                        help=f"one or more of {', '.join(ALGORITHMS)}; or all")
    parser.add_argument("--ranks", type=whole(), metavar="N", help="number of ranks")
    parser.add_argument("--ranks-per-machine", type=whole(), default=1, metavar="K",
                        help="ranks on each machine (default 1)")
    parser.add_argument("--bytes", default="16MiB", metavar="SIZE", help="size of the float32 vector (default 16MiB)")
    parser.add_argument("--segments", type=whole(), default=1, metavar="S",
                        help="cut each chunk into S pipelined segments (default 1)")
    net = parser.add_argument_group("network")
    net.add_argument("--links", type=nonempty, metavar="NETWORK",
                     help="a network of links in place of cards: a name or a JSON file (see collectives trees). "
                          "--rate is then the rate of a link of capacity 1")
    add_network_options(net)
    parser.add_argument("--check", action="store_true", help="compare with times measured on emulated clusters")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_network_options(net):
    """Add the options that ``network_from`` reads."""
    speed = net.add_mutually_exclusive_group()
    speed.add_argument("--rate", default=argparse.SUPPRESS,
                       help=f"rate of each machine's network card, in and out, e.g. 10gbit (default {RATE})")
    speed.add_argument("--rates", type=listed, metavar="RATE,RATE,...", help="one rate for each machine")
    for name, (units, default, what) in NETWORK_OPTIONS.items():
        net.add_argument(f"--{name}", default=default, metavar="TIME" if units is SECONDS else "SIZE",
                         help=f"{what} (default {default})")


def run(given: dict) -> int:
    """Predict each algorithm, or compare predictions with measurements; print a table."""
    if given.get("check"):
        from refimpl.experiments.validate_simulation import describe, validate

        found = validate()
        print(json.dumps(found) if given.get("json") else describe(found))
        return 0
    links = _links(given)
    if not given["algorithms"] or "ranks" not in given:
        raise ValueError("name an algorithm (or all), and --ranks of at least 1")
    elements = int(parse(given["bytes"], BYTES, "--bytes")) // _ITEMSIZE
    if elements * given["ranks"] >= 2**63:
        raise ValueError(f"--bytes {given['bytes']} on {given['ranks']} ranks: 64 bits cannot count them; give fewer")
    names, left_out = _feasible(given)
    network = network_from(given) if links is None else _graph(links, given)
    found = [_predicted(name, network, elements, given["segments"]) for name in names]
    found.sort(key=lambda row: row["seconds"])
    if given.get("json"):
        described = network.to_dict() if links is None else given["links"]
        print(json.dumps({"network": described, "bytes": elements * _ITEMSIZE, "results": found,
                          "left_out": left_out}))
        return 0
    print_table(found, network, elements * _ITEMSIZE)
    for reason in left_out:
        print(f"left out: {reason}")
    return 0


def _links(given):
    """Return the network of --links, None without it. Its number of ranks becomes --ranks."""
    if "links" not in given:
        return None
    from refimpl.collectives.links import named_links

    links = named_links(given["links"])
    if wrong := [f"--{option}" for option in ("rates", "burst") if given.get(option, "0") != "0"]:
        raise ValueError(f"{wrong[0]} describes network cards, but --links describes the network: leave one out")
    if given.setdefault("ranks", links.ranks) != links.ranks or given["ranks_per_machine"] != 1:
        raise ValueError(f"--links {links.name} has {links.ranks} ranks, each a machine: leave --ranks and "
                         "--ranks-per-machine out")
    return links


def _graph(links, given):
    """Return the network of these links, with the options' rate and latencies."""
    from refimpl.collectives.simulation.places import GraphNetwork

    cards = network_from({**given, "ranks": 1})
    return GraphNetwork(links, cards.bandwidth_out[0], cards.latency, cards.reduction, cards.overhead)


def _feasible(given) -> tuple[list[str], list[str]]:
    """Return (names of algorithms, why others are left out). Of "all", those that would take too long are left out.

    Raises ValueError, with the most ranks, if a named algorithm would take minutes, or if none is left.
    """
    from refimpl.collectives.choose import ALGORITHMS
    from refimpl.collectives.effort import GLANCE, PATIENCE, of_simulation, require

    names, ranks, left_out = list(dict.fromkeys(given["algorithms"])), given["ranks"], {}
    everything = names == ["all"]
    if everything:
        power = ranks & (ranks - 1) == 0
        names = [name for name in ALGORITHMS if power or name != "halving-doubling"]
    each, segments = given["ranks_per_machine"], given["segments"]
    for name in names:
        try:
            require(f"to simulate {name}{f' in {segments} segments' * (segments > 1)}", ranks,
                    lambda fewer: of_simulation(name, fewer, each, segments), GLANCE if everything else PATIENCE)
        except ValueError as problem:
            if not everything or len(left_out) == len(names) - 1:  # none is left
                raise
            left_out[name] = str(problem)
    return [name for name in names if name not in left_out], list(left_out.values())


def network_from(given: dict, machines=None):
    """Return the Network of the options. machines: instead of those of --ranks-per-machine. Local."""
    from refimpl.collectives.simulation.network import Network
    from refimpl.experiments.cluster import ClusterError, parse_rate
    from refimpl.transport.machines import in_blocks

    machines = machines or in_blocks(given["ranks"], given["ranks_per_machine"])
    option = "--rates" if "rates" in given else "--rate"
    try:
        speeds = tuple(parse_rate(rate) / 8 for rate in given.get("rates", [given.get("rate", RATE)] * len(machines)))
    except ClusterError as error:
        raise ValueError(f"{option}: {error}") from error
    if len(speeds) != len(machines):
        raise ValueError(f"--rates has {len(speeds)} rates, and there are {len(machines)} machines: give each its own")
    latency, *others = (parse(given[name.replace("-", "_")], units, f"--{name}")
                        for name, (units, *_) in NETWORK_OPTIONS.items())
    return Network(machines, latency, speeds, speeds, *others)


def _predicted(name, network, elements, segments) -> dict:
    """Return a row. Bandwidths: bytes/s as nccl-tests defines them.  line_rate: the lower bound / the time."""
    from refimpl.collectives.choose import by_machine
    from refimpl.collectives.simulation.columns import columns
    from refimpl.collectives.simulation.simulate import simulate

    machines = network.machines if by_machine(name) else None
    found = simulate(columns(name, network.ranks, machines), network, elements, _ITEMSIZE, segments)
    size, ranks = elements * _ITEMSIZE, network.ranks
    bound = _bound(network, size)
    speed = size / found.seconds if found.seconds else 0.0
    return {
        "algorithm": name, "seconds": found.seconds, "algorithm_bandwidth": speed,
        "bus_bandwidth": speed * 2 * (ranks - 1) / ranks, "line_rate": bound / found.seconds if found.seconds else 0.0,
        "busiest_machine": found.busiest, "utilisation": found.utilisation,
        "bytes_out": int(found.bytes_out[found.busiest]), "bytes_in": int(found.bytes_in[found.busiest]),
    }


def _bound(network, size) -> float:
    """Return the least seconds of any allreduce: with cards, those of a ring; with links, those of packed trees."""
    from refimpl.collectives.simulation.network import Network

    if isinstance(network, Network):
        many = len(network.machines)
        return 2 * (many - 1) / many * size / min(*network.bandwidth_out, *network.bandwidth_in)
    from refimpl.collectives.links import pack_trees  # SciPy loads slowly

    return size / (float(pack_trees(network.links).best) * network.unit)


def print_table(found, network, size):
    """Print the predictions, the fastest first. Column "card": of the busiest machine. Local."""
    from rich.console import Console

    ends = min(network.bandwidth_out), max(network.bandwidth_out)
    rates = dict.fromkeys(f"{rate / 1e6:,.{0 if rate >= 1e9 else 1}f}" for rate in ends)
    where = f"{counted(network.ranks, 'rank')} on {counted(len(network.machines), 'machine')}"
    title = (f"{size:,} bytes over {where}, cards of "
             f"{' to '.join(rates)} MB/s, latency {network.latency * 1e6:.4g} us")
    rows = [(row["algorithm"], f"{row['seconds'] * 1e3:,.2f}", f"{row['bus_bandwidth'] / 1e6:,.1f}",
             f"{row['line_rate']:.1%}", f"{row['busiest_machine']}", f"{row['bytes_out'] / 1e6:,.2f}",
             f"{row['bytes_in'] / 1e6:,.2f}", f"{row['utilisation']:.1%}") for row in found]
    headings = ("algorithm", "ms", "bus MB/s", "line rate", "card", "MB out", "MB in", "busy")
    Console().print(table_of(title, headings, rows, words=("algorithm",), whole=("algorithm", "ms"), padding=(0, 0)))
