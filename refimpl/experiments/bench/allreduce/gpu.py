"""Our schedules over NCCL's send and receive beside NCCL's own allreduce, on GPUs. Launches its ranks.

    python -m refimpl bench allreduce --device cuda

On one GPU ranks share it (see ``transport.device``): that shows what a schedule costs, not what a network gives.
"""

from refimpl.experiments.bench.allreduce.run import KIB, MIB, ratios, with_bandwidths
from refimpl.experiments.bench.job import measure

SIZES = (64 * KIB, MIB, 16 * MIB, 64 * MIB)
TIMEOUT = 300.0


def run(seconds: float = 2.0, rounds: int = 7, sizes=SIZES, ranks: int = 2) -> dict:
    """Race them and return {"rows", "ratios", "transport", "gpu"}, as ``bench.allreduce.run``. Local.

    seconds: for each race of one size.  ratios: "gpu" and "gpu SIZE" -> NCCL's seconds / ours. Raises ValueError with
    the ranks' own words if they cannot run.
    """
    found = measure("refimpl.experiments.bench.allreduce.gpu_ranks",
                    {"sizes": list(sizes), "seconds": seconds, "rounds": rounds}, ranks, timeout=TIMEOUT)
    return {**found, "ratios": ratios(with_bandwidths(found["rows"], ranks))}
