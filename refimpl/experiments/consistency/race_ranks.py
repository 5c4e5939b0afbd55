"""The work of each rank in ``bench consistency``: whole trainings in turns; rank 0 prints the times."""

import statistics
import time
from dataclasses import replace
from pathlib import Path

from models.workload import Workload
from refimpl.experiments.bench.peers import import_torch, peer_work
from refimpl.experiments.bench.timing import paired, take_turns
from refimpl.experiments.cells.ranks import build, options_of
from refimpl.experiments.consistency.figures import speed
from refimpl.experiments.consistency.ranks import train_once
from refimpl.experiments.consistency import cell_of, consistency_of
from refimpl.training.consistency.run import left_by
from refimpl.training.consistency.served.without_barriers import WithoutBarriers
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

PEER = "torch rpc parameter server"
OURS = "asynchronous"
WARM = 2  # steps of the slowest worker


class Forgetting(list):
    """An event log that keeps nothing."""

    def append(self, entry):
        """Do nothing."""


def main(comm: Communicator, **wanted) -> dict:
    """Time the works; return the rows. Collective."""
    written: list[float] = []
    works, end = works_of(comm, wanted, written)
    for runners in works.values():  # compile, connect
        for runner in runners.values():
            runner(2)
    took = take_turns({(work, name): runner for work, runners in works.items() for name, runner in runners.items()},
                      wanted["rounds"], lambda _, runner: runner(wanted["steps"]))
    words = Workload(**wanted["workload"]).make_data(comm.size).examples(0)
    end()
    return {"rows": [row for work, runners in works.items()
                     for row in rows_of(work, {name: took[work, name] for name in runners}, words)],
            "written": statistics.median(written)}


def rows_of(work: str, took: dict, words: int) -> list[dict]:
    """Return a row for each runner: name -> seconds of each round. Local."""
    return [{**row, "words_per_second": words / row["seconds"]}
            for row in paired(work, "4 machines x 1 worker", took, [OURS])]


def works_of(comm, wanted, written) -> tuple[dict, object]:
    """Return work -> name -> runner(steps) -> seconds of N steps; and a function that ends the peer. Collective.

    written: a list; a runner adds the fraction of its time in which its event log is gathered and written.
    """
    def replay(name, straggler="none"):
        return cell_of(Workload(**wanted["workload"]), name, straggler, "replay", 0, slowdown=wanted["slowdown"])

    def cells(straggler):
        return {name: paced(comm, replay(name, straggler), wanted["profile"]) for name in (OURS, "synchronous")}

    replayed = replay(OURS)

    works = {"consistency-straggler": cells("computes"), "consistency": cells("none"),
             "consistency-record": {OURS: recorded(comm, replayed, wanted, written),
                                    "without a record": recorded(comm, replayed, wanted, None)}}
    if import_torch() is None:
        return works, lambda: None
    from refimpl.experiments.bench.peers import torch_rpc

    torch_rpc.join_rpc(comm)
    real = replace(replayed, workload=Workload(**wanted["raced"]), compute="real")
    works["consistency-torch"] = {OURS: whole(comm, real), PEER: torch(comm, real, torch_rpc)}
    return works, torch_rpc.leave


def paced(comm, cell, profile):
    """Return a runner: the seconds of N steps, while all workers are at work."""
    def runner(steps):
        _, found = train_once(*build(cell, profile, comm.rank), options_of(replace(cell, steps=steps)), comm)
        examples = sum({worker: count for worker, _, _, _, count in found["steps"]}.values())
        return examples / speed(found["steps"], consistency_of(cell), steps, min(WARM, steps - 1))
    return runner


def whole(comm, cell):
    """Return a runner: the seconds of N steps, over a whole training."""
    def runner(steps):
        _, found = train_once(*build(cell, None, comm.rank), options_of(replace(cell, steps=steps)), comm)
        return found["steps"][-1][2] / steps
    return runner


def torch(comm, cell, torch_rpc):
    """Return a runner: the same for the peer."""
    def runner(steps):
        work = peer_work(cell.workload)
        mine = torch_rpc.RpcTrainer(work, work.data(cell.ranks), comm).train(steps)
        comm.meet("the end of a training")
        return float(comm.gather_numbers([mine[-1][2]], "the seconds of a training").max()) / steps
    return runner


def recorded(comm, cell, wanted, written: list | None):
    """Return a runner: the seconds of N steps, with an event log; without one if ``written`` is None."""
    def runner(steps):
        trainer = Trainer.open(*build(cell, wanted["profile"], comm.rank), options_of(replace(cell, steps=steps)), comm)
        training = WithoutBarriers(trainer)
        if written is None:
            training.owner.record = Forgetting()
        training.begin()
        begin = time.perf_counter()
        training.run(lambda metrics: None)
        ended = time.perf_counter()
        if written is not None:
            left = left_by(training)
            if comm.rank == 0:
                left.write(Path(wanted["directory"]), "0" * 64)
        comm.meet("the end of a training")
        if written is not None:
            written.append((time.perf_counter() - ended) / (time.perf_counter() - begin))
        return (time.perf_counter() - begin) / steps
    return runner
