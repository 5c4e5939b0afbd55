"""Measure tensors of many sizes on one machine and between two emulated ones, beside gRPC and the network's rate.

The third part is a step of the language model over each channel, on 8 machines of 2 ranks.
"""

from importlib.util import find_spec
from statistics import median

from refimpl.collectives.units import size_name
from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.channel import PARTS
from refimpl.experiments.cluster.description import address
from refimpl.experiments.job import BYTES_A_SECOND, RATE, measure
from refimpl.pictures.lines import Line, plot_lines

TENSORS, CALLS = "refimpl.experiments.channel.ranks:main", "refimpl.experiments.channel.calls:main"
QUICK = [8, 64 << 10, 4 << 20]
"""The sizes, in bytes, that have goals."""
SIZES = sorted([*(8 << 3 * i for i in range(8)), *QUICK[1:], 64 << 20])
"""Bytes: from 8 on, each eight times the one before, up to 16 MiB; those of QUICK; and 64 MiB."""
COPIES = (
    "Copies of a tensor by Python code, beside those of MPI, gRPC and the kernel: shared 1, into the slot; landing 1, "
    "into the message; rma none; MPI's persistent message 1; NIXL 1, into registered memory; gRPC 1, into bytes.",
    "What differs from the paper: it measured InfiniBand's hardware, TensorFlow in C++, and trainings end to end.",
)
MACHINES, EACH, ROUNDS = 8, 2, 3
"""Of the language model's step: machines, ranks of each, turns."""


def study(part: str, quick: bool) -> Finding:
    """Measure one of PARTS. Local; launches the ranks."""
    return step(quick) if part == "step" else sweep(part == "network", quick)


def sweep(network: bool, quick: bool) -> Finding:
    """Send tensors between two emulated machines, or on this one. Local. Raises ValueError without grpcio."""
    if find_spec("grpc") is None:
        raise ValueError("the channel is measured beside gRPC, and grpcio is not installed: pip install grpcio, or "
                         "refimpl's extra grpc")
    part, sizes = "network" if network else "machine", QUICK if quick else SIZES
    ways = list(PARTS[part])
    if not network and find_spec("nixl"):
        ways.insert(-2, "NIXL")
    turns = {size: max(2, min(100, (16 << 20 if network else 256 << 20) // size) // (5 if quick else 1))
             for size in sizes}
    wanted = {"ways": ways, "sizes": sizes, "turns": turns, "address": address(1) if network else "127.0.0.1"}
    found = measure(TENSORS, wanted, 1, 2, 1800, RATE) if network else measure(TENSORS, wanted, 2, timeout=1800)
    where = f"between two machines at {RATE}" if network else "on one machine"
    rows = [[size_name(size), *(f"{found[way][i] * 1e6:,.1f}" for way in ways),
             *(f"{found['gRPC'][i] / found[way][i]:.2f}" for way in ways[:-2])] for i, size in enumerate(sizes)]
    table = Table(f"A tensor there, its sum back, {where}: microseconds, and how many times as fast as gRPC's calls",
                  ["size", *ways, *(f"{way}: x gRPC" for way in ways[:-2])], rows)
    picture = plot_lines([Line(way, sizes, [1e6 * seconds for seconds in found[way]], style)
                          for style, way in enumerate(ways)], "bytes of the tensor", "microseconds",
                         f"Time until the writer has the sum of its tensor, {where}", log="xy")
    return Finding(f"A consumed tensor {where}", [table],
                   [*(_rates(found, sizes, ways) if network else []), *COPIES], pictures={f"channel-{part}": picture})


def _rates(found, sizes, ways):
    """Return a sentence: the fraction of the line's rate that each way reaches with the largest tensor."""
    least = sizes[-1] / BYTES_A_SECOND
    parts = ", ".join(f"{way} {least / found[way][-1]:.3f}" for way in ways)
    return [f"With {size_name(sizes[-1])} the parts of the line's rate are: {parts}. No way can exceed 1, but for the "
            "burst that a card lets through at once."]


def step(quick: bool) -> Finding:
    """Count a rank's calls and messages in a step, in turns. Local; launches 16 ranks of this machine, 4 if quick."""
    machines, rounds = (2, 1) if quick else (MACHINES, ROUNDS)
    found = measure(CALLS, {"ways": PARTS["step"], "ranks": EACH, "rounds": rounds}, machines * EACH, timeout=1800)
    rows = []
    for way, turns in found.items():
        busy, calls, messages, tensors, milliseconds = map(median, zip(*turns))
        rows.append([way, f"{busy:,.0f}", f"{calls:,.0f}", f"{messages:.1f}", f"{tensors:.1f}",
                     f"{messages + tensors:.1f}", f"{milliseconds:.0f}"])
    table = Table(f"A step of the language model on {machines} machines of {EACH} ranks: what a rank does",
                  ["way", "calls that do not wait", "calls", "MPI messages", "tensors in slots", "messages and tensors",
                   "ms"], rows)
    return Finding("A step of the language model", [table], [
        "none: MPI's messages alone. Means over ranks; the median of the rounds. Calls: of Python functions. Calls "
        "that wait are those with which a rank looks for what has not come. How often depends on how "
        "busy the cores are.",
        "There is no network between these machines, so the times say what the calls cost."])
