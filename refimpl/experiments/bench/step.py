"""Benchmarks of a training step of the trainer on one rank, for each model with a workload "step".

MODEL-step:   against the same model and step in PyTorch (``peers.peer_work``).
microbatches: V = 8 microbatches of the first model against one batch of the same words. This is the cost of the fixed
              tree. It is higher for small microbatches: products are narrow, and each has a gradient of every weight.
"""

from dataclasses import replace

from models.registry import workloads_for
from models.workload import STEPS
from refimpl.experiments.bench.peers import import_torch, peer_work
from refimpl.experiments.bench.timing import Row, race
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

MICROBATCHES = 8
MICROBATCH_STREAMS = {  # work -> streams of a microbatch
    "microbatches": 64,
    "microbatches-32": 32,
    "microbatches-8": 8,  # as ``train`` has them if nothing else is asked for
    "microbatches-128": 128,  # a worker's batch in the authors' experiments (docs/paper.md, Models)
}


def run(seconds: float = 10.0, rounds: int = 7, workloads=None) -> list[Row]:
    """Time every work, ``seconds`` each; the caller has set the number of BLAS threads to one. Local."""
    workloads, torch = workloads or workloads_for("step"), import_torch()
    rows = [row for workload in workloads
            for row in race_step(f"{workload.model}-step", workload, torch, seconds=seconds, rounds=rounds)]
    for work, streams in MICROBATCH_STREAMS.items():
        rows += race_one_batch(work, workloads[0], streams, seconds, rounds)
    return rows


def race_step(work: str, workload, torch, peer: str = "torch", device: str = "cpu", on: str = "cpu",
              steps: int = STEPS, **length) -> list[Row]:
    """Time one step of V = 1 microbatch, and PyTorch's, without augmentation. Local.

    torch: None to leave it out.  peer: its name.  device, on: ours and torch's.  steps: different batches.
    """
    model, data = workload.make_model(), workload.make_data(1, steps=steps)
    options = options_of(workload, device=device)
    ours, peers = {"refimpl": Trainer.open(model, data, options, Communicator.alone()).train_step}, {}
    if torch is not None and (theirs := peer_work(workload)):
        from refimpl.experiments.bench.peers.torch_replica import Replica

        peers = {peer: Replica(theirs, theirs.data(1, steps=steps), on=on).step}
    return race(work, str(workload), ours, peers, **length)


def race_one_batch(work, workload, streams, seconds, rounds=7) -> list[Row]:
    """Time one step of V microbatches, and one of V = 1 with all their streams. streams: of each microbatch."""
    cuts = (MICROBATCHES, streams), (1, MICROBATCHES * streams)
    steps = [Trainer.open(workload.make_model(), _with_streams(workload, many).make_data(v), options_of(workload),
                          Communicator.alone()).train_step for v, many in cuts]
    size = f"{MICROBATCHES} x {_with_streams(workload, streams)}"
    return race(work, size, {f"refimpl V = {MICROBATCHES}": steps[0]}, {"one big batch": steps[1]}, seconds, rounds)


def _with_streams(workload, streams):
    return replace(workload, shape={**workload.shape, "streams": streams})


def options_of(workload, **more) -> Options:
    """Return the options of a workload's training. more: other options. Local."""
    return Options(architecture="hybrid", **workload.entry.optimizer, **more)
