"""Print rounding errors of the collective algorithms on cancelling data, and the proved bound. Nothing is sent."""

import json
from dataclasses import asdict

from refimpl.cli.told.tables import table_of
from refimpl.cli.asked.values import whole
from refimpl.words import counted

HELP = "print each algorithm's rounding errors in ULP, and as a fraction of the proved bound"


def add(parser):
    """Add the options."""
    from refimpl.collectives.choose import ALGORITHMS
    from refimpl.collectives.exactness import DTYPES

    parser.add_argument("algorithms", nargs="*", default=(), metavar="ALGORITHM",
                        help=f"{', '.join(ALGORITHMS)} (default: all that serve this number of ranks)")
    parser.add_argument("--ranks", type=whole(), default=8, metavar="N", help="default 8")
    parser.add_argument("--dtype", choices=DTYPES, help="default: each of them")
    parser.add_argument("--elements", type=whole(), default=1001, metavar="n",
                        help="length of the vector (default 1001)")
    parser.add_argument("--seed", type=whole(0), default=0, help="of the data (default 0)")
    parser.add_argument("--machines", type=whole(), nargs="+", metavar="SIZE",
                        help="for hierarchical: ranks of each machine, in order of rank (default: two machines)")
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def run(given: dict) -> int:
    """Measure each algorithm in each dtype; print a table."""
    from refimpl.collectives.choose import ALGORITHMS
    from refimpl.collectives.exactness import DTYPES
    from refimpl.transport.machines import of_sizes

    asked, ranks = given["algorithms"], given["ranks"]
    _require_possible(ranks, given["elements"])
    sizes = given.get("machines", [ranks - ranks // 2, ranks // 2] if ranks > 1 else [ranks])
    machines = of_sizes(sizes, ranks)
    dtypes = [given["dtype"]] if "dtype" in given else DTYPES
    found, unable = [], []
    for name in asked or ALGORITHMS:
        try:
            found += [_measured(name, ranks, dtype, given, machines) for dtype in dtypes]
        except ValueError as error:
            if asked or name != "halving-doubling":
                raise
            unable.append(str(error))
    if given.get("json"):
        print(json.dumps({"results": found, "left_out": unable}))
    else:
        _print_table(found, unable, given)
    return 0


def _require_possible(ranks, elements):
    """Raise ValueError if the measurement would need more than a minute, or more than this host's memory."""
    from refimpl.collectives.effort import Effort, require

    require(f"exact sums of {elements} elements", ranks,
            lambda fewer: Effort(5e-6 * fewer * elements, 550.0 * fewer * elements))


def _measured(name, ranks, dtype, given, machines) -> dict:
    from refimpl.collectives.exactness import exactness

    if name != "hierarchical":
        return asdict(exactness(name, ranks, dtype, given["elements"], given["seed"]))
    return {**asdict(exactness(name, ranks, dtype, given["elements"], given["seed"], machines)),
            "machines": [len(ranks) for ranks in machines]}


def _print_table(found, unable, given):
    from rich.box import SIMPLE_HEAD
    from rich.console import Console

    headings = ("algorithm", "reproducible", "dtype", "adds", "most ULP", "mean ULP", "of bound")
    ranks = counted(given["ranks"], "rank")
    table = table_of(f"Rounding errors of {given['elements']} sums over {ranks}, cancelling data, "
                     f"seed {given['seed']}", headings, (), words=headings[:3], whole=headings, title_justify="left",
                     box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    last = ""
    for row in found:
        name = row["algorithm"] + (f" {'+'.join(map(str, row['machines']))}" if "machines" in row else "")
        first = name != last
        table.add_row(name if first else "", ("yes" if row["canonical"] else "no") if first else "", row["dtype"],
                      str(row["depth"]), f"{row['largest_ulp']:.4g}", f"{row['mean_ulp']:.4g}",
                      f"{row['largest_ratio']:.3f}")
        last = name
    console = Console()
    console.print(table)
    console.print("adds: the most additions, h, that a contribution passes through. ULP: distance from the correctly "
                  "rounded sum, in units of its last place. of bound: the largest error / (γ_h Σ|x|); a proof says "
                  "that it is never above 1.", style="dim")
    for reason in unable:
        console.print(f"left out: {reason}", style="dim", markup=False)
