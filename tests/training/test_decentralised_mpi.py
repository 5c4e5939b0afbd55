"""EASGD, gossip and local steps on real ranks: the bits of the plain ones (closed forms: tests/plain), and their bytes."""

import time
from collections import Counter
from functools import partial

import numpy as np
import pytest
from toys import WORKS, Lying, Toy, last, make_options, raising, refusal, toy_data

from refimpl.gradients import Layout
from refimpl.plain.messages import Messages
from refimpl.plain.without_barriers.decentralised import meet, over, train as train_plainly
from refimpl.plain.without_barriers.own_replica import OwnReplica
from refimpl.strategies.allreduce import allreduce_bytes
from refimpl.training.consistency.replicas.meetings import meeting
from refimpl.training.consistency.replicas.run import schedule_of
from refimpl.training.consistency.run import decentralised
from refimpl.training.consistency.served.record import RecordedRun
from refimpl.training.evaluate import evaluate
from refimpl.training.run.checkpoint import load_checkpoint
from refimpl.training.run.directory import read_metrics
from refimpl.training.run.whole import hashes
from refimpl.training.session import train
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]
STEPS = 5
RULES = ("easgd:1", "easgd:2", "gossip", "local:1", "local:3")


def options_of(rule, work="toy", optimizer="adam", **changes):
    said = {"clip_norm": None, "steps": STEPS, "device": "cpu", "architecture": "allreduce", "consistency": rule}
    return make_options(work, optimizer, **said | changes)


def whole(trainer):
    """All values, one variable after the other. Collective."""
    return np.concatenate([trainer.parameters.collect(v.name, everyone=True).ravel() for v in trainer.model.variables])


def trained(ranks, model, data, options):
    """Train; return (the trainer, metrics of all steps, all values)."""
    trainer = Trainer.open(model, data, options, ranks)
    (stretch,) = decentralised(trainer)
    return trainer, stretch.steps, whole(trainer)


def plainly(comm, model, data, options):
    """Return (all values, the optimizer's state of this rank) that refimpl.plain ends with."""
    messages, (name, _, number) = Messages(comm), options.consistency.partition(":")
    replica = OwnReplica(model, data, options, comm.rank, comm.size)
    ways = over(messages), partial(meet, messages)
    answer = train_plainly(replica, name, int(number or 1), options.steps, comm.size, *ways)
    return answer, replica.optimizer.state


@pytest.mark.thorough("easgd:2", "gossip", "local:3")
@pytest.mark.parametrize("rule", RULES)
def test_they_are_the_plain_ones_to_the_bit(comm, rule):
    """On any way by which replicas' gradients would travel, and any by which sums do: all ranks have one answer."""
    expected, state = plainly(comm, Toy(), toy_data(), options_of(rule))
    assert len(set(comm.allgather(expected.tobytes()))) == 1
    for travel in ({}, {"sparse_as_dense": True, "shared_memory": False}, {"allreduce": "binary-blocks"}):
        trainer, steps, found = trained(Communicator.of(comm), Toy(), toy_data(), options_of(rule, **travel))
        assert found.tobytes() == expected.tobytes()
        kept = {n: s for e in trainer.parameters.exchanges for n, s in e.shards.items()}
        assert all(kept[name].state[slot].tobytes() == array.tobytes()
                   for name, slots in state.items() for slot, array in slots.items())
    assert sorted((m["worker"], m["step"]) for m in steps) == [
        (worker, step + 1) for worker in range(comm.size) for step in range(STEPS)]
    assert [m["at"] for m in steps] == sorted(m["at"] for m in steps) and trainer.step == STEPS


@pytest.mark.ranks(3)
@pytest.mark.thorough("lm-gossip", "cnn-local")
@pytest.mark.parametrize("rule", ["easgd:2", "gossip", "local:2"])
@pytest.mark.parametrize("work", ["lm", "nmt", "cnn"])
def test_models_with_carried_state_padding_and_statistics(comm, work, rule):
    (model, data, _), options = WORKS[work], options_of(rule, work, "momentum")
    expected, _ = plainly(comm, model(), data(), options)
    assert trained(Communicator.of(comm), model(), data(), options)[-1].tobytes() == expected.tobytes()


# ---- bytes -----------------------------------------------------------------------------------------------------------

@pytest.mark.thorough("easgd:2", "gossip", "local:3")
@pytest.mark.parametrize("rule", RULES)
def test_bytes_are_the_formulas(comm, rule):
    """Sent and received, by rank and variable; and in all."""
    ranks, (name, _, number) = Communicator.of(comm), rule.partition(":")
    trainer, *_ = trained(ranks, Toy(), toy_data(), options_of(rule, shared_memory=False))
    layout, way, sent, received = Layout.of(Toy().variables), meeting(rule, comm.size, STEPS), Counter(), Counter()
    of_a_sum = allreduce_bytes(layout, schedule_of(trainer.plan))
    for step in range(STEPS):
        for key, matrix in of_a_sum.items() if way.sums(step) else ():
            sent[key] += int(matrix[comm.rank].sum())
            received[key] += int(matrix[:, comm.rank].sum())
        if way.partner(comm.rank, step) != comm.rank:
            met = Counter({("gossip", v, "dense"): 4 * n for v, n in layout.overlaps(0, layout.size).items()})
            sent, received = sent + met, received + met
    assert +Counter(ranks.ledger.sent) == +sent and +Counter(ranks.ledger.received) == +received
    sums = {"easgd": STEPS // int(number or 1), "gossip": 1, "local": -(-STEPS // int(number or 1))}[name]
    pairs = STEPS * (comm.size // 2 * 2) if name == "gossip" else 0
    assert comm.allreduce(sum(sent.values())) == 4 * layout.size * (sums * 2 * (comm.size - 1) + pairs)


# ---- from beginning to end -------------------------------------------------------------------------------------------

def test_a_run_leaves_one_answer(comm, tmp_path):
    """Evaluated, hashed, saved; twice the same. Its metrics have a line for each step of each worker."""
    ranks, options = Communicator.of(comm), options_of("gossip")
    directory = comm.bcast(tmp_path) / "run"
    result = train(Toy(), toy_data(), toy_data(4), options=options, comm=ranks, output=directory)
    again = train(Toy(), toy_data(), options=options, comm=ranks)
    assert result.parameters_sha256 == again.parameters_sha256 and result.state_sha256 == again.state_sha256
    assert result.consistency == "gossip" and result.staleness == [] and result.examples_per_second > 0
    assert len(read_metrics(directory)) == STEPS * comm.size
    trainer = Trainer.open(Toy(), toy_data(), options, ranks)
    load_checkpoint(trainer, directory)
    assert hashes(trainer.parameters)["state_sha256"] == result.state_sha256
    assert evaluate(trainer, toy_data(4)) == result.evaluation


def test_what_goes_wrong_on_one_rank_ends_all(comm):
    wrong = Lying(last(comm), raising(ValueError("no gradient today")))
    for rule in ("gossip", "local:2"):
        copy = comm.Dup()  # messages stay under way
        trainer = Trainer.open(wrong, toy_data(), options_of(rule), Communicator.of(copy))
        assert "no gradient today" in refusal(copy, lambda trainer=trainer: list(decentralised(trainer)))


@pytest.mark.mpi(min_size=4)
@pytest.mark.parametrize("rule, waits", [("gossip", False), ("local:1", True)])
def test_only_partners_wait_for_each_other(comm, rule, waits):
    """Rank 3 of four is in its first step until rank 1, which meets ranks 0 and 2 first, is in its second."""
    class Slow(Toy):
        calls = 0

        def loss_and_gradients(self, dense, rows, batch):
            self.calls += 1
            if comm.rank == 1 and self.calls == 3:  # two microbatches a step: the second has begun
                comm.isend("the second step", 3).wait()
            end = time.monotonic() + (0.3 if waits else 60)
            while comm.rank == 3 and self.calls == 1 and time.monotonic() < end and not comm.iprobe(1):
                time.sleep(0.005)
            if comm.rank == 3 and self.calls == 1:
                assert comm.iprobe(1) is not waits
            return super().loss_and_gradients(dense, rows, batch)

    trained(Communicator.of(comm.Dup()), Slow(), toy_data(count=24 * STEPS), options_of(rule))
    if comm.rank == 3:
        comm.recv(source=1)


# ---- refusals --------------------------------------------------------------------------------------------------------

def test_the_middle_of_a_run_and_its_replay_are_refused(comm, tmp_path):
    ranks = Communicator.of(comm)
    for how, option in (({"evaluate_every": 2}, "--evaluate-every"), ({"checkpoint_every": 2}, "--checkpoint-every")):
        said = refusal(comm, lambda how=how: train(Toy(), toy_data(), options=options_of("gossip"), comm=ranks, **how))
        assert f"leave {option} out" in said
    with pytest.raises(ValueError, match="gossip or local needs none: repeat it on as many ranks"):
        RecordedRun.read(tmp_path)
