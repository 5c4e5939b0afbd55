"""Pictures of collective algorithms for notebooks: messages in space and time, bytes and their bound, times."""

from refimpl.collectives.draw import draw_text, figure_of
from refimpl.collectives.links import Packing
from refimpl.collectives.links.draw import packing_figure
from refimpl.collectives.prove import prove
from refimpl.collectives.schedule import Schedule
from refimpl.collectives.simulation.columns import columns, columns_of
from refimpl.collectives.simulation.network import Network
from refimpl.collectives.simulation.simulate import simulate
from refimpl.collectives.units import size_name
from refimpl.pictures.picture import GREY, STYLE, Picture, figure_in_style, line_style, picture_of, table
from refimpl.transport.machines import in_blocks
from refimpl.words import counted

ITEMSIZE = 4


def space_time(schedule: Schedule) -> Picture:
    """Return the space-time picture of a schedule: ranks from top to bottom, rounds from left to right. Local."""
    title = f"{schedule.name}: {schedule.kind} over {counted(schedule.ranks, 'rank')}"
    with figure_in_style():
        figure = figure_of(schedule, title)
    return picture_of(figure, f"{title}, {len(schedule.rounds)} rounds; arrows are messages", draw_text(schedule))


def bytes_and_rounds(schedules) -> str:
    """Return the proofs of allreduce schedules as a table. Local. Raises ScheduleError if a proof fails.

    sent: by the busiest rank, in units of the vector n; bound: the minimum for any algorithm.
    """
    rows = []
    for schedule in schedules:
        proof = prove(schedule)
        sent = max(max(proof.chunks_sent), max(proof.chunks_received)) / proof.chunks
        rows.append((schedule.name, schedule.ranks, proof.rounds, f"{sent:.4g} n",
                     f"{proof.bound / proof.chunks:.4g} n", "yes" if proof.canonical else "no"))
    return table(("algorithm", "ranks", "rounds", "busiest rank", "bound", "tree order"), rows)


def flat_network(ranks: int, bandwidth: float | tuple[float, ...] = 1.25e9) -> Network:
    """Return a network of machines of one rank each. bandwidth: bytes/s of every card, or each, in and out. Local."""
    return Network(in_blocks(ranks, 1), 50e-6, bandwidth, bandwidth)


def times_over_ranks(algorithms, ranks, sizes) -> dict:
    """Return the simulated seconds of allreduces: {(algorithm, bytes): {ranks: seconds}}. Local.

    algorithms: names, or generators as in ``ALGORITHMS`` (name -> function of the number of ranks that returns a
    Schedule).  sizes: bytes of a float32 vector.
    """
    made = algorithms if isinstance(algorithms, dict) else {name: None for name in algorithms}
    times: dict = {(name, size): {} for name in made for size in sizes}
    for (name, size), seconds in times.items():
        for number in ranks:
            own = made[name]
            rounds = columns_of(own(number)) if own else columns(name, number)
            seconds[number] = simulate(rounds, flat_network(number), size // ITEMSIZE, ITEMSIZE).seconds
    return times


def plot_times(times: dict) -> Picture:
    """Return the picture of ``times_over_ranks``: one panel for each size, one line for each algorithm. Local."""
    from matplotlib.ticker import EngFormatter

    sizes = list(dict.fromkeys(size for _, size in times))
    algorithms = list(dict.fromkeys(name for name, _ in times))
    counts = sorted({number for found in times.values() for number in found})
    with figure_in_style(7.6, 3.9, ncols=len(sizes), squeeze=False) as (figure, grid):
        for axes, size in zip(grid[0], sizes):
            for index, name in enumerate(algorithms):
                found = times[name, size]
                axes.plot(list(found), list(found.values()), label=name, **line_style(index))
            axes.set(xscale="log", yscale="log", xlabel="ranks, one on each machine", title=size_name(size))
            axes.set_xticks(counts, map(str, counts))
            axes.yaxis.set_major_formatter(EngFormatter("s"))
            axes.tick_params(which="minor", bottom=False, left=False)
        grid[0][0].set_ylabel("time of an allreduce")
        figure.legend(*grid[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=len(algorithms))
        rows = [(f"{name}, {size_name(size)}", *(_milliseconds(found[n]) if n in found else "-" for n in counts))
                for (name, size), found in times.items()]
        return picture_of(figure, "Simulated milliseconds of an allreduce over the number of ranks, "
                          f"for vectors of {' and '.join(map(size_name, sizes))}", table(("ranks", *counts), rows))


def plot_sent(schedules_of: dict, ranks) -> Picture:
    """Return the picture of the busiest rank's bytes, over the number of ranks, with the bound. Local.

    schedules_of: name -> function of the number of ranks that returns a Schedule.
    """
    ranks, rows = list(ranks), []
    with figure_in_style(6.4, 3.9) as (figure, axes):
        for index, (name, make) in enumerate(schedules_of.items()):
            proofs = [prove(make(number)) for number in ranks]
            sent = [max(*p.chunks_sent, *p.chunks_received) / p.chunks for p in proofs]
            axes.plot(ranks, sent, label=name, marker="o", markersize=4, **line_style(index))
            rows.append((name, *(f"{x:.4g}" for x in sent)))
        bound = [2 * (number - 1) / number for number in ranks]
        axes.plot(ranks, bound, color=GREY, linewidth=6, alpha=0.35, label="lower bound 2 (N - 1) / N", zorder=0)
        rows.append(("lower bound", *(f"{x:.4g}" for x in bound)))
        axes.set(xlabel="ranks N", ylabel="bytes of the busiest rank, in units of n")
        axes.set_xticks(ranks)
        axes.set_ylim(0)
        axes.legend()
        return picture_of(figure, "Bytes that the busiest rank sends or receives, over the number of ranks, beside the "
                          "lower bound", table(("ranks", *ranks), rows))


def _milliseconds(seconds: float) -> str:
    return f"{1e3 * seconds:,.0f}" if seconds >= 1 else f"{1e3 * seconds:.4g}"


def draw_links(packing: Packing, trees: int = 0) -> Picture:
    """Return the picture of a packing's links, with their use, and its first ``trees`` trees. Local.

    A link is as wide as its rate. Blue links are full, orange ones partly used, grey ones not used.
    """
    import matplotlib

    shown = [["sum to" if tree.inward else "from", tree.root, tree.rate,
              " ".join("-".join(map(str, w)) for w in tree.ways)] for tree in packing.trees[:trees]]
    load = packing.load().values()
    alt = (f"{packing.links.name}: {packing.kind} at rate {packing.rate}; of {len(load)} links "
           f"{sum(part == 1 for part in load)} are full and {sum(part == 0 for part in load)} are not used")
    with matplotlib.rc_context({**STYLE, "figure.constrained_layout.use": False}):
        figure = packing_figure(packing, trees)
        return picture_of(figure, alt, table(["tree", "root", "rate", "ways"], shown) if shown else "")
