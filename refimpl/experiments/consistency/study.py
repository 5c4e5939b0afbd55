"""The experiment, from its cells to tables, sentences and pictures, with the report's first and last part."""

from collections import Counter
from functools import partial
from statistics import median

from models.registry import workloads_for
from refimpl.experiments.cells.cell import CONSISTENCIES, Cell
from refimpl.experiments.cells.proportions import slowdown_of
from refimpl.experiments.cells.report import Experiment, Finding, Table, bytes_of
from refimpl.experiments.cells.run import Runner
from refimpl.experiments.consistency import (
    SETTINGS, SLOW_RATE, WORKERS, cell_of, consistency_of, straggler_of,
)
from refimpl.experiments.consistency.figures import loss_curve, mean_and_most, reached, speed, versions_late
from refimpl.pictures.stragglers import plot_loss_curves, plot_speeds, plot_staleness

SOURCES = ("refimpl/plain/without_barriers/consistencies.py", "refimpl/plain/without_barriers/corrections.py",
           "refimpl/experiments/consistency/ranks.py")
HEAD = """# Training without barriers, measured

{ranks} workers, each also an owner of a part of the variables, train the language model in the paper's proportions
(`{workload}`), on an emulated cluster of {ranks} machines whose cables carry {rate} each way: real letters over real
TCP, while computation is replayed: {seconds:.0f} ms a step. One worker may be a straggler: it computes 3 times as long,
or its cable carries {slow_rate}.

- **throughput**: words a second while all workers are at work; gradients that owners drop do not count
- **staleness**: an owner's updates between a worker's pull and its push; "of a row": those that touched that row
- **sent**: payload bytes that leave a worker's machine in a step: its own row numbers and gradients, and what its owner
  answers
"""
FOOT = """## What is assumed

- The straggler's network is as quick as the others' when it computes longer, and the other way round.
- `synchronous` exchanges while it computes, where the trainer chooses to.
- dc-asgd is asynchronous with delay-compensated gradients.
- Real computation runs on the cores that all ranks share: its seconds are this machine's.
"""

REPLAYED, *_ = workloads_for("throughput")
LEARNER, *_ = workloads_for("convergence")
FULL = {"turns": 3, "steps": 20, "warm": 3, "learns": 300}
QUICK = {"turns": 1, "steps": 8, "warm": 2, "learns": 60}
"""warm: steps of the slowest worker; then bounded staleness has reached its bound."""
AIMS = {"computes": 2.2, "none": 0.95}
"""Straggler -> the aim for (asynchronous's throughput / synchronous's)."""
POINTS = 20  # of a curve


def make_experiment(output, quick: bool = False) -> Experiment:
    """Return the experiment; measure the profile that its replays need. Local.

    Raises ClusterError if this machine cannot emulate a cluster, ValueError if the directory cannot be made.
    """
    runner = Runner(output, "refimpl.experiments.consistency.ranks", SOURCES, on_cluster=True)
    first = replayed_cells(quick, 1.0)[0]
    alone = runner.profile(REPLAYED, first.ranks).mean_seconds
    slowdown = slowdown_of(REPLAYED, first.rate, alone)
    cells = {throughput: replayed_cells(quick, slowdown), learning: real_cells(quick)}
    studies = {study.__name__: partial(lambda study, some: study(some, runner.results(some)), study, some)
               for study, some in cells.items()}
    return Experiment(runner.directory, studies, head_of(first, alone * slowdown), lambda: FOOT, runner.failed)


def head_of(cell: Cell, seconds: float) -> str:
    """Return the first part of the report. seconds: of a replayed microbatch. Local."""
    return HEAD.format(ranks=cell.ranks, workload=cell.workload, rate=cell.rate, slow_rate=SLOW_RATE,
                       seconds=1e3 * seconds)


def replayed_cells(quick: bool, slowdown: float) -> list[Cell]:
    """Return the cells of the emulated cluster, turn by turn, so that noise affects all of them. Local."""
    size = QUICK if quick else FULL
    return [cell_of(REPLAYED, contender, straggler, "replay", size["steps"], size["warm"], slowdown, turn)
            for straggler in SETTINGS for turn in range(size["turns"]) for contender in CONSISTENCIES]


def real_cells(quick: bool) -> list[Cell]:
    """Return the cells with real computation, all with a worker that computes longer. Local."""
    return [cell_of(LEARNER, contender, "computes", "real", (QUICK if quick else FULL)["learns"])
            for contender in CONSISTENCIES]


def throughput(cells: list[Cell], results: dict) -> Finding:
    """Return throughput, staleness and bytes of the replays. results: cell.file -> result. Local."""
    found: dict[str, dict[str, list]] = {}
    for cell in cells:
        if (result := results.get(cell.file)) is not None:
            found.setdefault(straggler_of(cell), {}).setdefault(cell.contender, []).append((cell, result))
    speeds = {straggler: {name: median(speed(result["steps"], consistency_of(cell), cell.warm + cell.steps, cell.warm)
                                       for cell, result in turns) for name, turns in some.items()}
              for straggler, some in found.items()}
    late = {straggler: {name: _late(turns) for name, turns in some.items()} for straggler, some in found.items()}
    rows = [[SETTINGS[straggler], *_row(name, turns, speeds[straggler], late[straggler][name])]
            for straggler, some in found.items() for name, turns in some.items()]
    unit = REPLAYED.entry.unit
    table = Table(f"{WORKERS} machines of one worker, computation replayed", [
        "straggler", "consistency", f"{unit} a second", "x synchronous", "staleness, mean", "95 %",
        "of a row, mean", "95 % of rows", "sent, worker step"], rows)
    pictures = {}
    if speeds:
        pictures["throughput"] = plot_speeds({SETTINGS[straggler]: some for straggler, some in speeds.items()}, unit)
        shown = "computes" if "computes" in late else next(iter(late))
        pictures["staleness"] = plot_staleness({name: some for name, some in late[shown].items()})
    return Finding("Throughput, staleness and bytes", [table], verdicts(speeds), pictures=pictures)


def _row(name, turns, speeds, late) -> list[str]:
    rows = Counter()
    for _, result in turns:
        for each in result["rows"]:
            rows.update({int(number): count for number, count in each.items()})
    (mean, most), (mean_row, most_row) = mean_and_most(late), mean_and_most(rows)
    sent = sum(r["sent"] for _, r in turns) / sum(len(r["steps"]) for _, r in turns)
    times = f"{speeds[name] / speeds['synchronous']:.2f}" if "synchronous" in speeds else "-"
    return [name, f"{speeds[name]:,.0f}", times, f"{mean:.2f}", str(most), f"{mean_row:.2f}", str(most_row),
            bytes_of(sent)]


def _late(turns) -> Counter:
    """Return the staleness of all pushes; in a synchronous training it is 0."""
    return sum((versions_late(result["entries"], consistency_of(cell), cell.warm + cell.steps) if result["entries"] else
                Counter({0: len(result["steps"])}) for cell, result in turns), Counter())


def verdicts(speeds: dict[str, dict[str, float]]) -> list[str]:
    """Return whether asynchronous reaches its aims, in words. Local."""
    said = []
    for straggler, aim in AIMS.items():
        some = speeds.get(straggler, {})
        if {"synchronous", "asynchronous"} <= some.keys():
            times = some["asynchronous"] / some["synchronous"]
            said.append(f"{SETTINGS[straggler].capitalize()}: asynchronous has {times:.2f} times the throughput of "
                        f"synchronous, {'at least' if times >= aim else 'LESS THAN'} {aim:g}.")
    return said


def learning(cells: list[Cell], results: dict) -> Finding:
    """Return loss over steps and seconds, with real computation. results: cell.file -> result. Local."""
    found = {cell.contender: (cell, results[cell.file]) for cell in cells if cell.file in results}
    curves = {name: loss_curve(result["steps"], cell.ranks, max(1, cell.steps // POINTS))
              for name, (cell, result) in found.items()}
    goal = curves["synchronous"][-1][2] if curves.get("synchronous") else None
    rows = [[name, f"{curves[name][-1][2]:.3f}", f"{curves[name][-1][1]:.2f}", reached(curves[name], goal),
             f"{result['heldout']['perplexity']:,.0f}", f"{mean_and_most(_late([(cell, result)]))[0]:.2f}"]
            for name, (cell, result) in found.items()]
    table = Table(f"Real computation on {WORKERS} ranks of this machine, {SETTINGS['computes']}", [
        "consistency", "training loss, last", "seconds", "seconds to synchronous's last", "held-out perplexity",
        "staleness, mean"], rows)
    said = ["All have one learning rate. A synchronous step and one with backup workers is one update with the mean of "
            f"the gradients; asynchronous and bounded do {WORKERS} updates in its place, softsync:2 two: they go "
            "further with the same gradients, until the rate is too large for their staleness."]
    return Finding("Learning", [table], said,
                   pictures={"loss": plot_loss_curves(curves)} if curves else {})
