"""A step of the language model over each channel, on 8 machines of 2 ranks: Python calls, messages, tensors, time."""

from statistics import median

from refimpl.experiments.cells.report import Finding, Table
from refimpl.experiments.channel import PARTS
from refimpl.experiments.job import measure

WORK = "refimpl.experiments.channel.calls:main"
MACHINES, EACH = 8, 2
ROUNDS = 3
COLUMNS = ["way", "calls that do not wait", "calls", "MPI messages", "tensors in slots", "messages and tensors", "ms"]


def study(quick: bool) -> Finding:
    """Count a rank's calls and messages in a step, in turns. Local; launches 16 ranks of this machine, 4 if quick."""
    machines, rounds = (2, 1) if quick else (MACHINES, ROUNDS)
    found = measure(WORK, {"ways": PARTS["step"], "ranks": EACH, "rounds": rounds}, machines * EACH, timeout=1800)
    rows = []
    for way, turns in found.items():
        busy, calls, messages, tensors, milliseconds = map(median, zip(*turns))
        rows.append([way, f"{busy:,.0f}", f"{calls:,.0f}", f"{messages:.1f}", f"{tensors:.1f}",
                     f"{messages + tensors:.1f}", f"{milliseconds:.0f}"])
    table = Table(f"A step of the language model on {machines} machines of {EACH} ranks: what a rank does", COLUMNS,
                  rows)
    return Finding("A step of the language model", [table], [
        "none: MPI's messages alone. Means over ranks; the median of the rounds. Calls: of Python functions. Calls "
        "that wait are those with which a rank looks for what has not come. How often depends on how "
        "busy the cores are.",
        "There is no network between these machines, so the times say what the calls cost."])
