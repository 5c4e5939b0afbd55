"""Our schedules over NCCL's send and receive beside NCCL's own allreduce, on GPUs. Launches its ranks.

    python -m refimpl bench allreduce --device cuda

On one GPU ranks share it (see ``transport.device``): that shows what a schedule costs, not what a network gives.
"""

import json
import subprocess

from refimpl.experiments.bench.allreduce import KIB, MIB, ratios
from refimpl.transport.launch import LaunchError, launch

SIZES = (64 * KIB, MIB, 16 * MIB, 64 * MIB)
TIMEOUT = 300.0


def run(seconds: float = 2.0, rounds: int = 7, sizes=SIZES, ranks: int = 2) -> dict:
    """Race them and return {"rows", "ratios", "transport", "gpu"}, as ``bench.allreduce.run``. Local.

    seconds: for each race of one size.  ratios: "gpu" and "gpu SIZE" -> NCCL's seconds / ours. Raises ValueError with
    the ranks' own words if they cannot run.
    """
    wanted = {"sizes": list(sizes), "seconds": seconds, "rounds": rounds}
    arguments = ["-m", "refimpl.experiments.bench.allreduce_gpu_ranks", json.dumps(wanted)]
    try:
        job = launch(ranks, arguments, timeout=TIMEOUT, capture=True)
    except LaunchError as problem:
        raise ValueError(str(problem)) from problem
    except subprocess.TimeoutExpired as late:
        raise ValueError(f"the ranks of bench allreduce --device cuda were not done after {TIMEOUT:g} s: "
                         f"{(late.stderr or '')[-4000:]}") from late
    if job.returncode:
        raise ValueError(f"the ranks of bench allreduce --device cuda ended with status {job.returncode}:\n"
                         f"{job.stderr[-4000:]}")
    found = json.loads(job.stdout.strip().splitlines()[-1])
    for row in found["rows"]:
        row["algorithm_bandwidth"] = row["bytes"] / row["seconds"]
        row["bus_bandwidth"] = row["algorithm_bandwidth"] * 2 * (ranks - 1) / ranks
    return {**found, "ratios": ratios(found["rows"])}
