"""Measure training without barriers: throughput, staleness, bytes and loss of each consistency, with a straggler.

    study, ranks       the experiment, from cells to tables, pictures and report; the work of each rank
    race, race_ranks   ``bench consistency``: pairs of whole trainings, in turns; the work of each rank
    figures            numbers for comparison

Here are the cells that are compared, and their stragglers.
"""

from refimpl.experiments.cells.cell import CONSISTENCIES, Cell

WORKERS = 4
STRAGGLER = 3.0
"""The last worker computes so many times as long as necessary."""
SETTINGS = {"none": "no straggler", "computes": f"worker {WORKERS - 1} computes {STRAGGLER:g} x as long",
            "cable": f"the cable of worker {WORKERS - 1} is slow"}
"""Straggler -> its description."""
RATE, SLOW_RATE = "200mbit", "50mbit"


def cell_of(workload, contender: str, straggler: str, compute: str, steps: int, warm: int = 0, slowdown: float = 1.0,
            turn: int = 0) -> Cell:
    """Return a cell: a replay on WORKERS machines of one rank, or real computation on as many ranks of this machine.

    contender: of CONSISTENCIES.  straggler: of SETTINGS.  warm: of the ``steps``, before time counts. Local.
    """
    machines, each, rate = (1, WORKERS, "") if compute == "real" else (WORKERS, 1, RATE)
    return Cell("consistency", workload, contender, machines, each, rate, compute, slowdown, steps - warm, warm,
                seed=turn, slow={str(WORKERS - 1): STRAGGLER} if straggler == "computes" else {},
                slow_rate=SLOW_RATE if straggler == "cable" else "")


def straggler_of(cell: Cell) -> str:
    """Return a cell's straggler, a name of SETTINGS. Local."""
    return "computes" if cell.slow else "cable" if cell.slow_rate else "none"


def consistency_of(cell: Cell) -> str:
    """Return a cell's consistency, as ``Options`` has it. Local."""
    return CONSISTENCIES[cell.contender]["consistency"]
