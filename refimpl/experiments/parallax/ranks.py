"""What each rank of the emulated cluster runs: a cell's training, step by step."""

import json
import time
from pathlib import Path

from refimpl.experiments.cells.cell import Cell
from refimpl.experiments.cells.ranks import build, options_of
from refimpl.experiments.parallax.plans import naive_plan
from refimpl.training.evaluate import evaluate
from refimpl.training.planning.partition_trials import PartitionTrials
from refimpl.training.run.whole import hashes
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator


def run_cell(cell: Cell, comm: Communicator, profile: str | None, directory: Path) -> dict | None:
    """Train as the cell says; return its result on rank 0. Collective.

    profile: directory of the workload's profile, for a replay.
    """
    model, data = comm.together(lambda: build(cell, profile, comm.rank))
    options = comm.together(lambda: options_of(cell, **_plan(cell, model.variables, comm.machines)))
    trainer = Trainer.open(model, data, options, comm, network_file=directory / cell.network_file)
    found = _search(trainer)
    for _ in range(cell.warm):
        trainer.train_step()
    watch = Watch(comm)
    records, curve = _train(cell, trainer, watch)
    parameters = hashes(trainer.parameters) if cell.evaluate_every else {}
    everyone = [json.loads(text) for text in comm.share_text(json.dumps(watch.result()))]
    if comm.rank:
        return None
    return {"step_seconds": watch.seconds, "examples": data.examples(0), "losses": [r["loss"] for r in records],
            "search": found, "strategies": {name: each.name for name, each in trainer.plan.strategies.items()},
            "curve": curve, "parameters": parameters.get("parameters_sha256"), **together(everyone, comm.machines)}


def _plan(cell, variables, machines) -> dict:
    """Return the option with the plan of the naive server; empty for the others."""
    if cell.contender != "naive ps":
        return {}
    plan = naive_plan(variables, machines, cell.trainer_options["allreduce"])
    return {"plan": json.loads(json.dumps(plan.to_json()))}


def _search(trainer) -> dict | None:
    """Run a partition search to its end if the options ask for one; return its result. Collective."""
    trials = PartitionTrials.open(trainer, None)
    while trials.active:
        begin = time.perf_counter()
        trainer.train_step()
        trials.after_step(time.perf_counter() - begin)
    return trials.to_json()


def _train(cell, trainer, watch):
    """Do the counted steps; return their records, and perplexity over steps and seconds. Collective."""
    records, curve = [], []
    heldout = cell.workload.make_heldout(cell.ranks, cell.seed) if cell.evaluate_every else None
    for step in range(1, cell.steps + 1):
        records.append(watch.time(trainer.train_step))
        if cell.evaluate_every and step % cell.evaluate_every == 0:
            curve.append({"step": step, "seconds": sum(watch.seconds),
                          "perplexity": evaluate(trainer, heldout)["perplexity"]})
    return records, curve


class Watch:
    """Measures time, bytes and processor seconds of steps on one rank. Local."""

    def __init__(self, comm: Communicator):
        self.comm, self.seconds, self.crossed = comm, [], {"sent": 0, "received": 0}
        self.cpu = time.process_time()

    def time(self, step):
        """Do a step; return its record."""
        begin = time.perf_counter()
        record = step()
        self.seconds.append(time.perf_counter() - begin)
        for direction in self.crossed:
            self.crossed[direction] += self.comm.ledger.total(f"crossed_{direction}")
        return record

    def result(self) -> dict:
        """Return this rank's means per step: bytes between machines, processor seconds."""
        steps = len(self.seconds)
        return {"crossed": {direction: count / steps for direction, count in self.crossed.items()},
                "cpu": (time.process_time() - self.cpu) / steps}


def together(everyone: list[dict], machines) -> dict:
    """Return the ranks' measurements combined for the whole cluster, per step. Local.

    crossed: direction -> [bytes of each machine].  cpu_seconds: of all ranks.
    """
    crossed = {direction: [sum(everyone[rank]["crossed"][direction] for rank in ranks) for ranks in machines]
               for direction in ("sent", "received")}
    return {"crossed": crossed, "cpu_seconds": sum(r["cpu"] for r in everyone)}
