"""How fast is our allreduce beside the MPI library's and gloo on one machine and a cluster, and NCCL's on GPUs?

Bandwidths are those of nccl-tests: algorithm bandwidth n / t; bus bandwidth 2 (N - 1) / N * n / t, which can be
compared with the speed of the network for any N. For hierarchical, the number of machines takes the place of N.
"""

from refimpl.collectives import make_schedule
from refimpl.collectives.choose import CANONICAL_TREES, TREES
from refimpl.collectives.links.named import star_of
from refimpl.collectives.running.segments import segments_of
from refimpl.collectives.simulation.simulate import seconds_of
from refimpl.experiments.bench.timing import grouped
from refimpl.experiments.cells.proportions import emulated_network
from refimpl.experiments.cluster import parse_rate
from refimpl.experiments.job import BYTES_A_SECOND, measure

KIB, MIB = 1 << 10, 1 << 20
MACHINE_SIZES = (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
CLUSTER_SIZES = (8, KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB)

WORKS = {
    "machine": {"ranks": 4, "sizes": MACHINE_SIZES, "algorithms": ["direct"]},
    "machine-private": {"ranks": 4, "sizes": MACHINE_SIZES, "algorithms": ["direct"]},
}
CLUSTER_WORKS = {
    "cluster": {"machines": 4, "ranks": 1, "sizes": CLUSTER_SIZES,
                "algorithms": ["recursive-doubling", "direct", "halving-doubling", "ring"]},
    "cluster-hierarchical": {"machines": 8, "ranks": 2, "sizes": CLUSTER_SIZES, "algorithms": ["hierarchical"]},
}
"""Work -> ranks (of each machine), sizes in bytes, and our algorithms."""
GPU_SIZES = (64 * KIB, MIB, 16 * MIB, 64 * MIB)
GPU_TIMEOUT = 300.0
RANKS = "refimpl.experiments.bench.allreduce.ranks"


def run(seconds: float = 3.0, rounds: int = 7, cluster: bool = False, sizes=None) -> dict:
    """Time every work over its sizes; return {"rows", "ratios", "line_rate", "paths"}. Local; launches the ranks.

    seconds: for each size.  sizes: bytes, instead of each work's own.
    ratios: work and "work size" -> best peer's seconds / ours, the median over the rounds; a work's ratio is that of
    its largest size.  line_rate: "work size" -> seconds at line rate / ours.  paths: work -> how our data travelled.
    """
    rows, line_rate, paths = [], {}, {}
    for work, setting in (CLUSTER_WORKS if cluster else WORKS).items():
        wanted = {"work": work, "sizes": list(sizes or setting["sizes"]), "algorithms": setting["algorithms"],
                  "seconds": seconds, "rounds": rounds}
        found = measure(f"{RANKS}:race_on_hosts", wanted, setting["ranks"], setting.get("machines", 0))
        rows += with_bandwidths(found["rows"], found["machines"] if cluster else found["ranks"])
        if found["path"]:
            paths[work] = found["path"]
        if cluster:
            line_rate |= {f"{work} {size}": max(r["bus_bandwidth"] for r in alike if not r["peer"]) / BYTES_A_SECOND
                          for size, alike in grouped(found["rows"], "size").items()}
    return {"rows": rows, "ratios": ratios(rows), "paths": paths, **({"line_rate": line_rate} if cluster else {})}


def run_on_cards(rates, seconds: float = 3.0, rounds: int = 7, sizes=(16 * MIB,)) -> dict:
    """Time allreduces, packed trees among them, on emulated machines with cards of these rates. Local.

    Returns {"rows", "ratios", "rates"}; our rows have ``predicted``, the simulated seconds of the schedule.
    """
    star, network = star_of([parse_rate(rate) for rate in rates]), emulated_network(len(rates), 1, rates)
    algorithms = ["ring", "direct", TREES + star, CANONICAL_TREES + star]
    wanted = {"work": "cards", "sizes": list(sizes), "algorithms": algorithms, "seconds": seconds, "rounds": rounds}
    found = measure(f"{RANKS}:race_on_hosts", wanted, machines=len(rates), rates=rates)
    for row in found["rows"]:
        if not row["peer"]:
            schedule = make_schedule(row["name"].split()[1], len(rates), len(rates))
            elements = row["bytes"] // 4
            row["predicted"] = seconds_of(schedule, network, elements, 4, segments_of(schedule, elements, 4))
    return {"rows": found["rows"], "ratios": ratios(found["rows"]), "rates": list(rates)}


def run_on_gpus(seconds: float = 2.0, rounds: int = 7, sizes=GPU_SIZES, ranks: int = 2) -> dict:
    """Time our schedules over NCCL's send and receive, and NCCL's own allreduce. Local; launches the ranks.

    Returns {"rows", "ratios", "transport", "gpu"}, as ``run``; ratios: "gpu" and "gpu SIZE".  seconds: see ``run``.
    On one GPU ranks share it (see ``transport.device``). Then times show a schedule's cost, not a network's speed.
    Raises ValueError with the ranks' messages if they cannot run.
    """
    wanted = {"sizes": list(sizes), "seconds": seconds, "rounds": rounds}
    found = measure(f"{RANKS}:race_on_gpus", wanted, ranks, timeout=GPU_TIMEOUT)
    return {**found, "ratios": ratios(with_bandwidths(found["rows"], ranks))}


def with_bandwidths(rows: list[dict], parties: int) -> list[dict]:
    """Return rows with algorithm_bandwidth and bus_bandwidth, bytes/s. parties: the number of senders. Local."""
    for row in rows:
        row["algorithm_bandwidth"] = row["bytes"] / row["seconds"]
        row["bus_bandwidth"] = row["algorithm_bandwidth"] * 2 * (parties - 1) / parties
    return rows


def ratios(rows) -> dict:
    """Return work and "work size" -> the best peer's seconds / ours, by its row's ``ratio``. Local."""
    found = {}
    for work, of_work in grouped(rows, "work").items():
        for size, alike in grouped(of_work, "size").items():
            best = min(r["ratio"] for r in alike if r["peer"])
            found[work] = found[f"{work} {size}"] = best  # sizes rise: the last stands for the work
    return found
