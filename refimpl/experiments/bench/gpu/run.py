"""Benchmarks on a GPU: training steps and the merge of rows, and PyTorch eager on the same GPU, in one run.

Both sides use float32, with TF32 off, and get batches from the host, as in a training. A step ends when its loss is on
the host. Its remaining work counts at the end of a round (``race``, settle).

gpu-MODEL-step:     a step of the trainer, on one rank, for each model with a workload "step".
gpu-aggregate-rows: the row gradients of a window, added up by row on the GPU.
It also times the allreduce between two ranks (``bench.allreduce``).
"""

from dataclasses import asdict, dataclass

import numpy as np

from kernels import aggregate_rows
from kernels.random import key_of, uniform
from models.registry import workloads_for
from models.workload import Workload
from refimpl.experiments.bench.allreduce.run import run_on_gpus
from refimpl.experiments.bench.gpu import bounds
from refimpl.experiments.bench.rows import zipf_ids
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.step import options_of, race_step
from refimpl.experiments.bench.timing import Row, race, report
from refimpl.training.device import find_gpu
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

STEPS = 8  # different batches; then they repeat
IDS = key_of("bench", "ids")


@dataclass(frozen=True)
class Sizes:
    """What is measured. workloads: whose steps, on one microbatch.  rows: of the row merge, and width."""

    workloads: list[Workload]
    rows: tuple[int, int]
    vocabulary: int
    copied: int  # bytes, for the GPU's copy bandwidth


FULL = Sizes(workloads_for("gpu"), (2560 * 20, 512), 100_000, 1 << 28)


def run(seconds: float = 10.0, rounds: int = 7, sizes: Sizes = FULL, between_ranks: bool = True,
        trainings=bounds.TRAININGS) -> dict:
    """Measure all works, ``seconds`` each; return the report: rows, ratios, device and versions. Local.

    trainings: those whose results are compared with the CPU's.
    Raises ValueError, saying what is missing, where there is no GPU.
    """
    device = find_gpu(0)
    torch = _torch()

    def settle():
        device.synchronize()
        if torch is not None:
            torch.cuda.synchronize()

    length = {"seconds": seconds, "rounds": rounds, "settle": settle}
    rows = [row for workload in sizes.workloads
            for row in race_step(f"gpu-{workload.model}-step", workload, torch, "torch eager", "cuda", "cuda", STEPS,
                                 **length)]
    merge = race_rows(device.xp, sizes, torch, length)
    copy = copy_bandwidth(device.xp, sizes.copied, length)
    result = report(rows + merge)
    (count, width), ids = sizes.rows, zipf_ids(IDS, sizes.rows[0], sizes.vocabulary)
    sums = len(np.unique(ids))  # every row is read, every sum written, once
    result |= {"device": device.to_json(), "copy_bandwidth": copy,
               "merge_bandwidth": (count + sums) * width * 4 / merge[0].seconds,
               "phases": {w.model: phases_of(w) for w in sizes.workloads}}
    result["bounds"] = [asdict(row) for training in trainings for row in bounds.compare(*training)]
    if between_ranks:
        try:
            result["allreduce"] = run_on_gpus(min(2.0, seconds), rounds)
        except ValueError as problem:  # NCCL may not be there: the rest is worth a report
            result["allreduce"] = {"rows": [], "error": str(problem)}
    return result


def _torch():
    """Return torch where it has a GPU, else None; TF32 is off."""
    torch = import_torch()
    if torch is None or not torch.cuda.is_available():
        return None
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    return torch


def phases_of(workload: Workload) -> dict[str, float]:
    """Return the seconds that the host spends in each phase of a step, the mean of several steps. Local.

    If "waiting for device" is short, the host limits the speed.
    """
    model, data = workload.make_model(), workload.make_data(1, steps=STEPS)
    trainer = Trainer.open(model, data, options_of(workload, device="cuda"), Communicator.alone())
    spent = [trainer.train_step()["seconds"] for _ in range(2 * STEPS)][STEPS:]
    return {phase: sum(step.get(phase, 0.0) for step in spent) / STEPS for phase in spent[0]}


def race_rows(xp, sizes: Sizes, torch, length, on: str = "cuda") -> list[Row]:
    """Race the sum of rows that share an id against torch's coalesce: ids by Zipf's law, on the GPU as the rows are."""
    (count, width), ids = sizes.rows, zipf_ids(IDS, sizes.rows[0], sizes.vocabulary)
    values = (uniform(key_of("bench", "values"), count * width) - 0.5).reshape(count, width).astype(np.float32)
    there = xp.asarray(ids), xp.asarray(values)
    ours, peers = {"refimpl": lambda: aggregate_rows(*there)}, {}
    if torch is not None:
        sparse = torch.from_numpy(ids)[None].to(on), torch.from_numpy(values).to(on)
        shape = (sizes.vocabulary, width)
        peers = {"torch coalesce": lambda: torch.sparse_coo_tensor(*sparse, shape).coalesce()}
    return race("gpu-aggregate-rows", f"{count} x {width} of {sizes.vocabulary}, Zipf", ours, peers, **length)


def copy_bandwidth(xp, nbytes: int, length) -> float:
    """Return how many bytes a second the GPU reads and writes when it copies its own memory."""
    source, target = xp.ones(nbytes // 4, xp.float32), xp.empty(nbytes // 4, xp.float32)

    def copy():
        target[...] = source

    row, = race("copy", "", {"copy": copy}, {}, **{**length, "seconds": min(1.0, length["seconds"])})
    return 2 * nbytes / row.seconds
