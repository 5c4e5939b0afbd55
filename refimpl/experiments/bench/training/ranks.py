"""The work of each rank in ``bench training`` and ``bench torch``: our steps and the peer's in turns."""

import gc
from dataclasses import replace

import numpy as np

from kernels.random import key_of
from models.workload import Workload
from refimpl.experiments.bench.peers import join_gloo, peer_work
from refimpl.experiments.bench.timing import paired, race_steps, time_alone
from refimpl.experiments.bench.training import HYBRID, PEER
from refimpl.experiments.job import BYTES_A_SECOND
from refimpl.plan.sample import take_sample
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

SEED = 0


def race(comm, contenders: dict, work: str, size: str, examples: int, speed: str, **length) -> list[dict]:
    """Return a row for each contender. contenders: name -> (step, its computation alone). speed: its field. Collective.
    """
    turns, cards = race_steps(comm, {name: step for name, (step, _) in contenders.items()}, **length)
    alone = time_alone(comm, {name: computation for name, (_, computation) in contenders.items()})
    rows = paired(work, f"{comm.size} ranks x {size}", turns, [name for name in turns if name != PEER])
    lines = {name: {"card_bytes": card, "line_seconds": max(card) / BYTES_A_SECOND} for name, card in cards.items()}
    return [{**row, speed: examples / row["seconds"], "compute_seconds": alone[row["name"]],
             **lines.get(row["name"], {})} for row in rows]


def race_model(comm: Communicator, work: str, workload: dict, **length) -> dict:
    """Time a step of one of our models with hybrid and allreduce, and of the peer; {"rows", "touched"}. Collective.

    work: its name.  length: seconds, rounds.
    """
    workload = Workload(**workload)
    model, data, options = workload.make_model(), workload.make_data(comm.size), options_of(workload)
    alone = computation(model, data, comm.rank)
    contenders = {f"refimpl {name}": (Trainer.open(model, data, replace(options, architecture=name), comm).train_step,
                                      alone) for name in ("hybrid", "allreduce")}
    if join_gloo(comm) is not None:
        from refimpl.experiments.bench.peers.torch_replica import DdpReplica

        peer = peer_work(workload)
        replica = DdpReplica(peer, peer.data(comm.size), comm.rank)
        contenders[PEER] = replica.step, replica.computation()
    rows = race(comm, contenders, work, str(workload), data.examples(0), "words_per_second", **length)
    return {"rows": rows, "touched": touched(model, data)}


def race_modules(comm: Communicator, works: list, where: str, small: bool, **length) -> dict:
    """Time modules of PyTorch, trained by us and by the peer; {"rows", "losses", "alpha"}. Collective.

    works: their names.  where: the end of the rows' names.  small: see ``work_of``.  length: seconds, rounds.
    """
    from refimpl.experiments.bench.peers.torch_replica import DdpReplica
    from refimpl.experiments.bench.training.works import work_of
    from refimpl.torch import TorchModel

    join_gloo(comm)
    found: dict = {"rows": [], "losses": {}, "alpha": {}}
    for name in works:
        work, losses = work_of(name, small), {HYBRID: [], PEER: []}
        model, data = TorchModel(work.make(), work.loss), work.data(comm.size)
        trainer = Trainer.open(model, data, Options(seed=SEED, **work.options), comm)
        replica = DdpReplica(work, data, comm.rank)
        contenders = {HYBRID: (lambda: losses[HYBRID].append(trainer.train_step()["loss"]),
                               computation(model, data, comm.rank)),
                      PEER: (lambda: losses[PEER].append(replica.step()), replica.computation())}
        rows = race(comm, contenders, f"torch-{name}{where}", work.size, data.examples(0), "examples_per_second",
                    **length)
        losses[PEER] = comm.share(np.array(losses[PEER]), "bench").mean(axis=0).tolist()
        found["rows"] += [{**row, "unit": work.unit} for row in rows]
        found["losses"][name], found["alpha"][name] = losses, trainer.alpha
        gc.collect()  # the next one has its own tables
    return found


def options_of(workload: Workload) -> Options:
    """Return the options, with the model's own optimizer. Local."""
    return Options(scheme="interleaved", **workload.entry.optimizer)


def computation(model, data, rank):
    """Return a callable: forward and backward pass of one microbatch on given rows, without any exchange. Local."""
    batch = replace(data.microbatch(0, rank), key=key_of(SEED, "microbatch", 0, rank), state={})
    needs = model.rows_needed(batch)
    dense = {v.name: v.initial_value(SEED) for v in model.variables if not v.sparse}
    rows = {v.name: np.zeros((len(needs[v.name]), *v.shape[1:]), v.dtype) for v in model.variables if v.sparse}
    return lambda: model.loss_and_gradients(dense, rows, batch)


def touched(model, data, steps: int = 4) -> dict:
    """Return what a rank touches, the mean over ranks and steps: alpha, elements of rows, dense elements. Local."""
    sample = take_sample(model, data, SEED, tuple(range(steps)))
    alpha = {name: sample.alpha(name, data.microbatches) for name in sample.rows}
    dense = sum(v.size for v in model.variables if not v.sparse)
    elements = sum(alpha[v.name] * v.size for v in model.variables if v.sparse)
    return {"alpha": alpha, "dense_elements": dense, "row_elements": elements, "rows_to_dense": elements / dense}
