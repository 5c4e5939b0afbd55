"""Trains a few steps on every mesh that the ranks can be, and compares each rank's ledger with the formula."""

import json

from refimpl.experiments.bench.job import answer
from refimpl.experiments.mesh.ranks.nets import make_data, make_net, options_of
from refimpl.plan import predict_step
from refimpl.plan.activations import examples_in
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

STEPS = 2


def main(comm: Communicator, wanted: dict) -> list[dict]:
    """Return a record for each net and mesh. wanted: nets (name -> net), microbatches, size, members. Collective."""
    records = []
    for name, net in wanted["nets"].items():
        data = make_data(net, wanted["microbatches"], wanted["size"])
        for members in (k for k in wanted["members"] if comm.size % k == 0):
            options = options_of(f"{comm.size // members}x{members}", allreduce="auto", shared_memory=False)
            trainer = Trainer.open(make_net(net), data, options, comm)
            records.append({"net": name, "mesh": str(trainer.plan.on_mesh), **compared(trainer, data)})
    return records


def compared(trainer, data) -> dict:
    """Return the bytes of a step by phase, and how many keys of all ranks differ from the formula. Collective."""
    comm, different, sent = trainer.comm, 0, {}
    for step in range(STEPS):
        trainer.train_step()
        examples = [examples_in(data.microbatch(step, v)) for v in range(data.microbatches)]
        predicted = predict_step(trainer.plan, trainer.model.variables, {}, {}, comm.rank, examples=examples)
        found = {key: (comm.ledger.sent[key], comm.ledger.received[key])
                 for key in set(comm.ledger.sent) | set(comm.ledger.received)}
        different += sum(found.get(key, (0, 0)) != predicted.get(key, (0, 0)) for key in found | predicted)
    for (phase, _, kind), (count, _) in predicted.items():
        what = kind if kind == "control" else phase
        sent[what] = sent.get(what, 0) + count
    everyone = [json.loads(text) for text in comm.share_text(json.dumps(different))]
    return {"sent": sent, "keys": len(predicted), "different": sum(everyone), "ranks": comm.size, "steps": STEPS}


if __name__ == "__main__":
    answer(main)
