"""What each rank of ``bench training`` does: the same training step in ours and in the peer, in turns; rank 0 prints.

    mpirun -n 4 python -m mpi4py -m refimpl.experiments.bench.training.ranks '{"work": "training", ...}'
"""

import itertools
import json
import statistics
import sys
from dataclasses import asdict, replace

import numpy as np
from threadpoolctl import threadpool_limits

from kernels.random import key_of
from models.data import TokenStreams
from models.lm import LanguageModel
from refimpl.experiments.bench import step
from refimpl.experiments.bench.peers import import_torch
from refimpl.experiments.bench.peers.gloo import join_gloo
from refimpl.experiments.bench.timing import Row
from refimpl.experiments.bench.together import time_together
from refimpl.experiments.bench.training.run import PEER
from refimpl.experiments.cluster.card import card_bytes
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

OURS = ("hybrid", "allreduce")
OPTIONS = Options(optimizer="adagrad", learning_rate=0.2, clip_norm=10.0, scheme="interleaved")


def main(wanted: dict) -> None:
    """Race a step and print the rows. wanted: work, sizes, streams, window, seconds, rounds. Collective."""
    comm = Communicator()
    with threadpool_limits(1):
        data = token_streams(wanted, comm.size)
        model = LanguageModel(**wanted["sizes"])
        steps = {f"refimpl {name}": Trainer(model, data, replace(OPTIONS, architecture=name), comm).train_step
                 for name in OURS}
        computations = dict.fromkeys(steps, computation(model, data, comm.rank))
        if (peer := torch_step(comm, model, data)) is not None:
            steps[PEER], computations[PEER] = peer
        measured = race_with_cards(comm, steps, wanted["seconds"], wanted["rounds"])
        alone = {name: _median_time(comm, function) for name, function in computations.items()}
    words = data.examples(0)
    size = (f"{comm.size} ranks x {wanted['streams']} streams x {wanted['window']} words, {model.samples} candidates "
            f"of {model.vocabulary}")
    rows = [{**asdict(Row(wanted["work"], size, name, name == PEER, seconds)), "words_per_second": words / seconds,
             "compute_seconds": alone[name], **({"card_bytes": card} if card else {})}
            for name, (seconds, card) in measured.items()]
    if comm.rank == 0:
        print(json.dumps({"rows": rows, "touched": touched(model, data)}), flush=True)


def token_streams(wanted: dict, ranks: int) -> TokenStreams:
    """Return an epoch of full windows of the synthetic language, a microbatch for each rank. Local."""
    return step.token_streams(wanted["sizes"]["vocabulary"], ranks, wanted["streams"], wanted["window"])


def race_with_cards(comm: Communicator, functions: dict, seconds: float, rounds: int) -> dict:
    """Time functions in turns: name -> (median seconds of the slowest rank, busiest card's bytes a call). Collective.

    Bytes: [sent, received], mean over all calls, None where there are no cards to look at (machines that share memory).
    """
    calls, times = {}, {name: [] for name in functions}
    moved = {name: np.zeros(2, np.int64) for name in functions}
    for name, function in functions.items():
        time_together(comm, function, 2)  # connections, memory, compilation
        calls[name] = max(1, int(seconds / rounds / len(functions) / time_together(comm, function, 1)))
    for _, (name, function) in itertools.product(range(rounds), functions.items()):
        comm.meet("a benchmark")
        before = card_bytes()
        times[name].append(time_together(comm, function, calls[name]))
        if before is not None:
            moved[name] += np.subtract(card_bytes(), before)
    result = {}
    for name, spent in times.items():
        everyone = comm.share(moved[name], "bench").max(axis=0) / (rounds * calls[name])
        result[name] = statistics.median(spent), everyone.tolist() if everyone.any() else None
    return result


def _median_time(comm: Communicator, function, rounds: int = 5) -> float:
    function()
    return statistics.median(time_together(comm, function, 2) for _ in range(rounds))


def computation(model, data, rank):
    """Return a callable: forward and backward pass of one microbatch on given rows, without any exchange. Local."""
    batch = replace(data.microbatch(0, rank), key=key_of(OPTIONS.seed, "microbatch", 0, rank), state={})
    needs = model.rows_needed(batch)
    dense = {v.name: v.initial_value(OPTIONS.seed) for v in model.variables if not v.sparse}
    rows = {v.name: np.zeros((len(needs[v.name]), *v.shape[1:]), v.dtype) for v in model.variables if v.sparse}
    return lambda: model.loss_and_gradients(dense, rows, batch)


def torch_step(comm: Communicator, model, data):
    """Return (step, computation alone) of the peer, callables; None where PyTorch is not installed. Collective."""
    torch = import_torch()
    if torch is None:
        return None
    from refimpl.experiments.bench.peers.torch_lm import LogUniformSampler, TorchTrainer, distributed

    join_gloo(torch, comm)
    peer = distributed(model, {v.name: v.initial_value(OPTIONS.seed) for v in model.variables})
    trainer = TorchTrainer(peer, OPTIONS.learning_rate, OPTIONS.clip_norm)
    sampler = LogUniformSampler(model.samples, model.vocabulary, seed=comm.rank)
    first, drawn = data.microbatch(0, comm.rank), sampler.draw()
    inputs, targets = torch.from_numpy(first.inputs), torch.from_numpy(first.targets)

    def compute():
        trainer.optimizer.zero_grad()
        peer.module(inputs, targets, None, drawn)[0].backward()

    return trainer.stepper(data, sampler, comm.rank), compute


def touched(model, data, steps: int = 4) -> dict:
    """Return what a rank touches, mean over ranks and ``steps``: alpha, elements of rows and of the rest. Local."""
    of = {v.name: v for v in model.variables}
    needs = [model.rows_needed(replace(data.microbatch(s, v), key=key_of(OPTIONS.seed, "microbatch", s, v)))
             for s in range(steps) for v in range(data.microbatches)]
    rows = {name: sum(len(n[name]) for n in needs) / len(needs) for name in needs[0]}
    dense = sum(int(np.prod(v.shape)) for v in model.variables if not v.sparse)
    elements = sum(count * of[name].shape[1] for name, count in rows.items())
    return {"alpha": {name: count / of[name].shape[0] for name, count in rows.items()}, "dense_elements": dense,
            "row_elements": elements, "rows_to_dense": elements / dense}


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
