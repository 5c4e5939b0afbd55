"""What each rank of ``bench training`` does: the same training step in ours and in the peer, in turns; rank 0 prints.

    mpirun -n 4 python -m mpi4py -m refimpl.experiments.bench.training.ranks '{"work": "training", ...}'
"""

from dataclasses import asdict, replace

from models.workload import Workload
from refimpl.experiments.bench.job import answer
from refimpl.experiments.bench.peers import import_torch, join_gloo, stepper, torch_twin
from refimpl.experiments.bench.steps import SEED, computation, race_with_cards, time_alone
from refimpl.experiments.bench.timing import Row
from refimpl.experiments.bench.training import PEER
from refimpl.plan.sample import take_sample
from refimpl.training.options import Options
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

OURS = ("hybrid", "allreduce")


def main(comm: Communicator, wanted: dict) -> dict:
    """Race a step; return the rows. wanted: work, workload, seconds, rounds. Collective."""
    workload = Workload(**wanted["workload"])
    model, data, options = workload.make_model(), workload.make_data(comm.size), options_of(workload)
    steps = {f"refimpl {name}": Trainer.open(model, data, replace(options, architecture=name), comm).train_step
             for name in OURS}
    computations = dict.fromkeys(steps, computation(model, data, comm.rank))
    if (peer := torch_step(comm, workload, model, data)) is not None:
        steps[PEER], computations[PEER] = peer
    measured = race_with_cards(comm, steps, wanted["seconds"], wanted["rounds"])
    alone = time_alone(comm, computations)
    words = data.examples(0)
    size = f"{comm.size} ranks x {workload}"
    rows = [{**asdict(Row(wanted["work"], size, name, name == PEER, raced.seconds)),
             "words_per_second": words / raced.seconds, "compute_seconds": alone[name],
             **({"card_bytes": raced.card} if raced.card else {})} for name, raced in measured.items()]
    return {"rows": rows, "touched": touched(model, data)}


def options_of(workload: Workload) -> Options:
    """Return the options of the race: the optimizer is the model's own. Local."""
    return Options(scheme="interleaved", **workload.entry.optimizer)


def torch_step(comm: Communicator, workload, model, data):
    """Return (step, computation alone) of the peer, callables; None: there is none. Collective."""
    torch = import_torch()
    if torch is None:
        return None
    join_gloo(torch, comm)
    twin = torch_twin(workload.model, model, options_of(workload), rank=comm.rank, together=True)
    if twin is None:
        return None
    return stepper(twin, data, comm.rank), twin.computation(data.microbatch(0, comm.rank))


def touched(model, data, steps: int = 4) -> dict:
    """Return what a rank touches, mean over ranks and ``steps``: alpha, elements of rows and of the rest. Local."""
    sample = take_sample(model, data, SEED, tuple(range(steps)))
    alpha = {name: sample.alpha(name, data.microbatches) for name in sample.rows}
    dense = sum(v.size for v in model.variables if not v.sparse)
    elements = sum(alpha[v.name] * v.size for v in model.variables if v.sparse)
    return {"alpha": alpha, "dense_elements": dense, "row_elements": elements, "rows_to_dense": elements / dense}


if __name__ == "__main__":
    answer(main)
