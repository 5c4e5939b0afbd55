"""How fast is our allreduce beside the MPI library's own and gloo, on one machine and on an emulated cluster?

Bandwidths as nccl-tests defines them: algorithm bandwidth n / t; bus bandwidth 2 (N - 1) / N * n / t, which can be
compared with the speed of the communicator whatever N is (hierarchical: with M machines for N).
"""

import json
from pathlib import Path

from refimpl.collectives.units import size_name
from refimpl.transport.launch import launch

KIB, MIB = 1 << 10, 1 << 20
MACHINE_SIZES = (KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, MIB, 4 * MIB, 16 * MIB, 64 * MIB)
CLUSTER_SIZES = (KIB, 64 * KIB, MIB, 4 * MIB, 16 * MIB)
RATE = 200_000_000 / 8
"""Bytes a second in and out of each machine of the emulated cluster (CLUSTER: 200 Mbit/s)."""

WORKS = {
    "machine": {"ranks": 4, "sizes": MACHINE_SIZES, "algorithms": ["direct"]},
    "machine-private": {"ranks": 4, "sizes": MACHINE_SIZES, "algorithms": ["direct"]},
}
CLUSTER_WORKS = {
    "cluster": {"machines": 4, "each": 1, "sizes": CLUSTER_SIZES, "algorithms": ["direct", "halving-doubling", "ring"]},
    "cluster-hierarchical": {"machines": 8, "each": 2, "sizes": CLUSTER_SIZES, "algorithms": ["hierarchical"]},
}


def run(seconds: float = 3.0, rounds: int = 7, cluster: bool = False, sizes=None) -> dict:
    """Race every work over its sizes and return {"rows", "ratios", "line_rate", "roads"}. Local; launches the ranks.

    seconds: for each race of one size.  sizes: bytes, in place of each work's own.
    ratios: work and "work size" -> best peer's seconds / ours, median of the rounds' own ratios; a work's own is that
    of its largest size.  line_rate: "work size" -> seconds at line rate / ours.  roads: work -> how our data went.
    """
    rows, line_rate, roads = [], {}, {}
    for work, setting in (CLUSTER_WORKS if cluster else WORKS).items():
        wanted = {"work": work, "sizes": list(sizes or setting["sizes"]), "algorithms": setting["algorithms"],
                  "seconds": seconds, "rounds": rounds}
        found = _measure(setting, wanted)
        parties = found["machines"] if cluster else found["ranks"]
        for row in found["rows"]:
            row["algorithm_bandwidth"] = row["bytes"] / row["seconds"]
            row["bus_bandwidth"] = row["algorithm_bandwidth"] * 2 * (parties - 1) / parties
        rows += found["rows"]
        if found.get("road"):
            roads[work] = found["road"]
        if cluster:
            line_rate |= {f"{work} {size}": max(r["bus_bandwidth"] for r in alike if not r["peer"]) / RATE
                          for size, alike in _by_size(found["rows"]).items()}
    return {"rows": rows, "ratios": ratios(rows), "roads": roads, **({"line_rate": line_rate} if cluster else {})}


def _measure(setting, wanted) -> dict:
    """Run one job of ranks and return what its rank 0 printed."""
    arguments = ["-m", "refimpl.experiments.bench.allreduce_ranks", json.dumps(wanted)]
    if "machines" in setting:
        from refimpl.experiments.cluster import run_on_cluster

        job = run_on_cluster(setting["machines"], setting["each"], "200mbit", arguments, capture=True)
    else:
        job = launch(setting["ranks"], arguments, capture=True)
    if job.returncode:
        raise ValueError(f"the ranks of {wanted['work']} ended with status {job.returncode}:\n{job.stderr[-4000:]}")
    return json.loads(job.stdout.strip().splitlines()[-1])


def _by_size(rows) -> dict:
    """Return size -> the rows of it."""
    return {size: [r for r in rows if r["size"] == size] for size in dict.fromkeys(r["size"] for r in rows)}


def ratios(rows) -> dict:
    """Return work and "work size" -> the best peer's seconds / ours, by its row's ``ratio``. Local."""
    found = {}
    for work in dict.fromkeys(r["work"] for r in rows):
        for size, alike in _by_size([r for r in rows if r["work"] == work]).items():
            best = min(r["ratio"] for r in alike if r["peer"])
            found[work] = found[f"{work} {size}"] = best  # sizes rise: the last stands for the work
    return found


def plot(result: dict, path: Path) -> Path:
    """Draw bus bandwidth over size, a panel for each work, into a file; return its path. Local."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    rows = result["rows"]
    works = list(dict.fromkeys(r["work"] for r in rows))
    figure, panels = pyplot.subplots(1, len(works), figsize=(6 * len(works), 4.2), layout="constrained", squeeze=False)
    for axes, work in zip(panels[0], works):
        for name in dict.fromkeys(r["name"] for r in rows if r["work"] == work):
            line = [(r["bytes"], r["bus_bandwidth"] / 1e9) for r in rows if (r["work"], r["name"]) == (work, name)]
            axes.plot(*zip(*line), "o--" if any(r["peer"] for r in rows if r["name"] == name) else "o-", label=name)
        ticks = sorted({r["bytes"] for r in rows if r["work"] == work})
        axes.set(xscale="log", yscale="log", title=work, xlabel="vector", ylabel="bus bandwidth (GB/s)")
        axes.set_xticks(ticks, [size_name(n) for n in ticks], rotation=45, minor=False)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(alpha=0.25)
        axes.legend(frameon=False)
    figure.savefig(path, dpi=150)
    pyplot.close(figure)
    return Path(path)
