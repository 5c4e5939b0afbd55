"""Measure refimpl's kernels, training step and allreduce in turns with those of other software, one thread each.

If such a peer is not installed, it is left out, with a message on stderr.
"""

import argparse
import importlib
import json
import math

from models.registry import entries
from refimpl.cli.told.tables import console, table_of
from refimpl.cli.asked.values import listed, nonempty, seconds, whole
from refimpl.collectives.units import BYTES, parse, size_name
from refimpl.transport.job.host import memory

REFUSALS = (ValueError,)
ONE_RANK = ("rows", "lstm", "conv", "step")
"""The benches on one rank: modules of ``refimpl.experiments.bench``."""
TRAININGS = {"training": "bench.training.run", "torch": "bench.training.modules", "consistency": "consistency.race"}
"""Bench -> its module in ``refimpl.experiments``, with ``run`` and ``describe``."""
BENCHES = (*ONE_RANK, "allreduce", *TRAININGS, "gpu")
OF_BENCH = {"cluster": ("allreduce", "training", "torch"), "rates": ("allreduce",), "device": ("allreduce",),
            "sizes": ("allreduce",), "output": ("gpu",), "quick": ("torch",), "foreign": ("torch",)}
"""Option -> the benches that have it."""
REACH = {"gpu-aggregate-rows": 2.0, "aggregate-rows": 2.5, "aggregate-rows-vs-numpy": 30.0, "lstm": 1.0, "conv": 0.8,
         "microbatches": 0.9, "training-cluster": 2.5, "machine 64 MiB": 8.0, "machine-private 64 MiB": 2.0,
         "machine 1 MiB": 4.0,
         **{f"machine {n} KiB": 1.0 for n in (1, 4, 16, 64)}}
"""The ratio that each work, or work and size, should reach: best peer's seconds / our seconds. Models,
``bench torch`` and ``bench consistency`` define their own."""
LINE_RATE = {"cluster": 0.97, "cluster-hierarchical": 0.95}
"""The fraction of line rate that our allreduce should reach from 1 MiB on."""


def add(parser):
    """Add the options."""
    parser.add_argument("bench", choices=BENCHES, help="what is measured")
    parser.add_argument("--seconds", type=seconds, metavar="S",
                        help="time for each comparison (default: longer if times are noisy)")
    parser.add_argument("--rounds", type=whole(), metavar="N",
                        help="how often each program has its turn; the median counts")
    parser.add_argument("--cluster", action="store_true",
                        help="allreduce, training, torch: on an emulated cluster at 200 Mbit/s")
    parser.add_argument("--rates", type=listed, metavar="RATE,RATE,...",
                        help="allreduce of 16 MiB: on emulated machines with these rates")
    parser.add_argument("--quick", action="store_true", help="torch: small models on two ranks, to check that it runs")
    parser.add_argument("--foreign", action="store_true",
                        help="torch: modules of other packages: torchfm, deepctr-torch, transformers, PyTorch itself")
    parser.add_argument("--device", choices=["cpu", "cuda"],
                        help="allreduce: on GPUs, our schedules over NCCL's messages beside NCCL's own sum")
    parser.add_argument("--sizes", nargs="+", type=_bytes, metavar="SIZE", help="allreduce: e.g. 64KiB 16MiB")
    parser.add_argument("--output", type=nonempty, metavar="DIR", help="gpu: where the report goes, as JSON and text "
                        "(default runs/bench-gpu)")
    parser.add_argument("--json", action="store_true", help="print only the result, as one JSON object")


def run(given: dict) -> int:
    """Measure, and print the result. It starts the ranks that it needs, so it is run without mpirun."""
    for option, benches in OF_BENCH.items():
        if option in given and given["bench"] not in benches:
            raise ValueError(f"--{option} works only with bench {' or '.join(benches)}, not bench {given['bench']}")
    race = {"allreduce": _allreduce, "gpu": _gpu, **dict.fromkeys(TRAININGS, _training)}.get(given["bench"], _one_rank)
    length = {name: given[name] for name in ("seconds", "rounds") if name in given}
    result, lines = race(given, length)
    if given.get("json"):
        print(json.dumps(result))
        return 0
    _print_table(given["bench"], result)
    for line in lines:
        print(line)
    return 0


def _one_rank(given, length):
    from threadpoolctl import threadpool_limits

    from refimpl.experiments.bench.timing import report

    bench = importlib.import_module(f"refimpl.experiments.bench.{given['bench']}")
    with threadpool_limits(1):
        return report(bench.run(**length)), []


def _allreduce(given, length):
    from refimpl.experiments.bench.allreduce.run import run, run_on_cards, run_on_gpus

    sizes = {"sizes": given["sizes"]} if "sizes" in given else {}
    if given.get("device") == "cuda":
        if wrong := [f"--{option}" for option in ("cluster", "rates") if option in given]:
            raise ValueError(f"bench allreduce --device cuda runs on this machine's GPUs: leave {wrong[0]} out")
        result = run_on_gpus(**length, **sizes)
        lines = [f"{result['ranks']} ranks on {result['gpu']}; {result['transport']}"]
    elif "rates" in given:
        result = run_on_cards(given["rates"], **length, **sizes)
        lines = [f"{row['name']}: {_time(row['seconds'])}, predicted {_time(row['predicted'])}"
                 for row in result["rows"] if not row["peer"]]
    else:
        result = run(**length, **sizes, cluster=given.get("cluster", False))
        lines = [f"{work}: {path}" for work, path in result["paths"].items()]
        lines += [f"{what}: {share:.3f} of line rate{_line_rate_verdict(what, share)}"
                  for what, share in result.get("line_rate", {}).items()]
    return result, lines


def _training(given, length):
    module = importlib.import_module(f"refimpl.experiments.{TRAININGS[given['bench']]}")
    switches = {name: given[name] for name in ("cluster", "quick", "foreign") if name in given}
    result = module.run(**length, **switches)
    return result, module.describe(result)


def _gpu(given, length):
    """Measure on one GPU, and between two ranks on it; write the report."""
    from refimpl.experiments.bench.gpu import report
    from refimpl.experiments.bench.gpu.run import run

    result = run(**length)
    report.write(result, table_rows(result), given.get("output", "runs/bench-gpu"))
    return result, report.describe(result)


def _line_rate_verdict(what, share) -> str:
    work, _, size = what.partition(" ")
    return f" (reach {LINE_RATE[work]}{' MISSED' * (share < LINE_RATE[work])})" if size.endswith("MiB") else ""


def table_rows(result: dict) -> list[tuple[str, ...]]:
    """Return (work, size, who, time, ratio, reach) as text for each timing; reach only for a work's best peer. Local.

    ratio: the peer's seconds / our best seconds, or the ratio of each round if the rows have it.
    """
    lines, rows = [], result["rows"]
    for row in rows:
        alike = [r for r in rows if (r["work"], r["size"]) == (row["work"], row["size"])]
        ours = min((r["seconds"] for r in alike if not r["peer"]), default=math.nan)
        ratios = {r["name"]: r.get("ratio") or r["seconds"] / ours for r in alike if r["peer"]}
        ratio = ratios.get(row["name"])
        verdict = _verdict(row["work"], row["size"], ratio) if ratio and ratio == min(ratios.values()) else ""
        lines.append((row["work"], row["size"], row["name"], _time(row["seconds"]), f"{ratio:.2f} x" if ratio else "",
                      verdict))
    return lines


def _verdict(work, size, ratio) -> str:
    from refimpl.experiments.consistency.race import WORKS as CONSISTENCY
    from refimpl.experiments.bench.training.modules import FOREIGN, WORKS

    of_modules = {f"torch-{name}{where}": reach for name, both in (WORKS | FOREIGN).items()
                  for where, reach in zip(("", "-cluster"), both)}
    of_models = {name: reach for entry in entries().values() for name, reach in entry.reach.items()}
    reaches = REACH | CONSISTENCY | of_modules | of_models
    reach = reaches.get(work, reaches.get(f"{work} {size}"))
    return "" if reach is None else f">= {reach:g}{' MISSED' * (ratio < reach)}"


def _time(seconds: float) -> str:
    scale, unit = (1e6, "us") if seconds < 1e-3 else (1e3, "ms") if seconds < 1 else (1, "s")
    return f"{seconds * scale:.3g} {unit}"


def _print_table(name, result):
    table = table_of(f"bench {name}: one thread each; ratio = peer's time / our time",
                     ("work", "size", "who", "time", "ratio", "reach"), (), words=("work", "size", "who", "reach"),
                     whole=("work", "who", "time", "ratio", "reach"))
    last = None
    for work, size, *rest, reach in table_rows(result):
        if last and last[0] != work:
            table.add_section()
        shown = ("" if last and last[0] == work else work, "" if last == (work, size) else size)
        last = (work, size)
        table.add_row(*shown, *rest, f"[bold red]{reach}[/]" if "MISSED" in reach else reach)
    console().print(table)


def _bytes(text: str) -> int:
    try:
        size = int(parse(text, BYTES, "size"))
    except ValueError as problem:
        raise argparse.ArgumentTypeError(str(problem)) from problem
    most = memory() // 16  # each of four ranks has some arrays of this size
    if not 4 <= size <= most:
        raise argparse.ArgumentTypeError(f"{text}: give a size from 4 B (one number) to {size_name(most)} (a sixteenth "
                                         "of this host's memory)")
    return size
