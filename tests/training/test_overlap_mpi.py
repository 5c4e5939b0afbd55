"""Exchanges beside the computation: the same bits as in turn, and they do go on at the same time."""

import functools
import threading
import time

import numpy as np
import pytest
from mpi4py import MPI
import toys
from toys import Script, answer, make_trainer, refusal

from kernels import RowGradient
from models import Constant, Variable
from refimpl.training.options import Options
from refimpl.training.step import overlap_choice
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks
from refimpl.transport.messages import MpiMessages

SETTINGS = toys.SETTINGS | {
    "ps, one partition": dict(architecture="ps", partitions=1, local_aggregation=False),
    "hybrid, five partitions": dict(architecture="hybrid", partitions=5, scheme="interleaved", local_aggregation=False),
}

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


def machines_of(comm):
    """Return pretended machines: each rank one of its own; two of each half."""
    return [in_blocks(comm.size, 1), in_blocks(comm.size, -(-comm.size // 2))]


@functools.cache
def one_rank(work, microbatches):
    """Return the answer of one rank, in turn."""
    return answer(work, "adam", MPI.COMM_SELF, microbatches=microbatches, overlap=False)


CASES = [*(("toy", 7, settings, 1) for settings in SETTINGS), ("toy", 2, "hybrid", 1), ("toy", 2, "ps", 1),
         *(("lm", 8, settings, 1) for settings in ("hybrid", "allreduce", "ps")), ("lm", 8, "hybrid", None),
         ("cnn", 8, "ps", 1), ("cnn", 8, "reduce-scatter", 1),
         ("cnn", 8, "allreduce", None), ("nmt", 8, "hybrid", 1)]
"""Work, microbatches, settings, bytes of a bucket: 1 for one of each dense variable; None for few."""


@pytest.fixture
def small(monkeypatch):
    """A call that sets the bytes of a bucket."""
    return lambda largest: largest and monkeypatch.setattr("refimpl.plan.buckets.BUCKET", largest)


@pytest.mark.parametrize("work, microbatches, settings, largest", CASES)
@pytest.mark.thorough("lm-8-hybrid-None", "toy-7-allreduce", "cnn-8-reduce-scatter")
def test_the_same_bits(comm, small, work, microbatches, settings, largest):
    small(largest)
    for machines, overlap in [*((machines, True) for machines in machines_of(comm)), (in_blocks(comm.size, 1), None)]:
        communicator = Communicator(comm, machines=machines)
        found = answer(work, "adam", communicator, microbatches=microbatches, overlap=overlap, **SETTINGS[settings])
        assert found == one_rank(work, microbatches)


class Slow:
    """A model that sleeps as it computes: needs rows 0.. of two tables, then lets its gradients go one by one."""

    SECONDS, ORDER = 0.05, ("words", "weight")

    def __init__(self, last=0):
        """last: the number of the call that goes on until something is ``pushed``."""
        self.last, self.pushed = last, threading.Event()
        self.variables = [Variable("words", (40, 2), sparse=True, initial=Constant(0.5)), Variable("kernel", (30, 2)),
                          Variable("weight", (50, 2), sparse=True, initial=Constant(0.5))]

    def rows_needed(self, batch):
        return {"words": batch.inputs, "weight": batch.inputs}

    def loss_and_gradients(self, dense, rows, batch):
        gradients = {}
        for name in self.ORDER:
            assert rows[name].shape == (len(batch.inputs), 2)
            time.sleep(self.SECONDS)
        for name in ("weight", "kernel", "words"):
            time.sleep(self.SECONDS)
            ones = np.ones((len(batch.inputs), 2), np.float32)
            gradients[name] = np.ones((30, 2), np.float32) if name == "kernel" else RowGradient(batch.inputs, ones)
            batch.ready(gradients)
        time.sleep(self.SECONDS)
        self.last -= 1
        if self.last == 0:
            assert self.pushed.wait(20)  # other ranks may be late
        return 0.0, gradients


def slow_data(microbatches, missing=(), rows=3):
    """Microbatch v needs ``rows`` rows from v on; there is none where it is ``missing``."""
    return Script([[None if v in missing else dict.fromkeys(range(v, v + rows), (0.0, 0.0))
                    for v in range(microbatches)]])


def spans_of(trainer, phase):
    return [(begin, end) for name, begin, end, *_ in trainer.timeline.spans if name == phase]


@pytest.mark.parametrize("architecture, push", [("hybrid", "push"), ("allreduce", "allgather"), ("ps", "push")])
@pytest.mark.thorough("hybrid")
def test_the_trace_shows_exchanges_beside_the_computation(comm, architecture, push):
    """Two microbatches a rank: pulls of the second, and pushes of what is ready, lie within the computation."""
    options = Options(architecture=architecture, overlap=True, optimizer="sgd")
    communicator = Communicator(comm, in_blocks(comm.size, 1))
    model = Slow(last=2)
    trainer = Trainer.open(model, slow_data(2 * comm.size), options, communicator, trace=True)
    exchange = next(exchange for exchange in trainer.parameters.exchanges if exchange.phase == push)
    sent = exchange.push
    exchange.push = lambda: model.pushed.set() or sent()
    trainer.timeline.spans.clear()
    record = trainer.train_step()
    (begin, end), = spans_of(trainer, "compute")
    pushes, pulls = spans_of(trainer, push), spans_of(trainer, "pull")
    assert begin < pushes[0][0] < end
    assert len(pulls) == {"hybrid": 4, "allreduce": 0, "ps": 6}[architecture]
    assert {lane for name, *_, lane in trainer.timeline.spans if name in ("push", "pull", push)} == {1}
    seconds = record["seconds"]
    assert 12 * Slow.SECONDS <= seconds["compute"] < end - begin + 1e-3
    lanes = [{name for name, *_, lane in trainer.timeline.spans if lane == which} for which in (0, 1)]
    assert not lanes[0] & lanes[1] and "waiting for exchange" in lanes[0]
    whole = max(end for _, _, end, *_ in trainer.timeline.spans) - min(begin for _, begin, *_ in trainer.timeline.spans)
    assert 0.8 * whole < sum(seconds[name] for name in lanes[0]) < whole + 1e-3


@pytest.mark.parametrize("missing, architecture", [
    ((1,), "hybrid"), ((0, 1), "hybrid"), ((0, 1), "ps"), ((0, 1), "allreduce"), ((2, 3), "ps")])
def test_ranks_without_microbatches_take_part(comm, missing, architecture, monkeypatch):
    """With rows in several rounds, and models that look them up in another order on each rank."""
    monkeypatch.setattr(Slow, "SECONDS", 0.0)
    monkeypatch.setattr(Slow, "ORDER", Slow.ORDER[::-1 if comm.rank % 2 else 1])
    monkeypatch.setattr("refimpl.server.rounds.ROUND", 1)
    runs = []
    for overlap in (True, None, False):
        options = Options(architecture=architecture, overlap=overlap, partitions=24, scheme="interleaved")
        communicator = Communicator(comm, in_blocks(comm.size, 1), 20)
        trainer = Trainer.open(Slow(), slow_data(4, missing, 24), options, communicator)
        runs.append([trainer.train_step()["gradient_norm"] for _ in range(3)])
    assert runs[0] == runs[1] == runs[2]


@pytest.mark.ranks(3)
def test_early_no_message_has_the_tag_of_another_exchange(comm, small, monkeypatch):
    """Rows of several exchanges and dense sums are under way together. Other messages of a step have tag 0."""
    small(1)
    trainer = make_trainer("lm", "sgd", Communicator(comm, in_blocks(comm.size, 1)), overlap=None, device="cpu")
    served, dense = trainer.parameters.exchanges[:2], trainer.parameters.exchanges[2:]
    lanes = [1 + runner.first_lane + lane for runner in (one.allreduce.runner for one in dense)
             for lane in range(runner.lanes)]
    tags, seen = [exchange.tag for exchange in served], set()
    assert len({0, *tags, *lanes}) == 1 + len(served) + len(lanes)
    begun = MpiMessages.start
    monkeypatch.setattr(MpiMessages, "start", lambda self, sends, receives, what, packed=False, tag=0: (
        seen.add(tag), begun(self, sends, receives, what, packed, tag))[1])
    trainer.train_step()
    assert set(tags) <= seen <= {0, *tags}
    served[0].channel = 1 << 12  # no lane is left for so many exchanges
    assert served[0].tag == 0 and np.isfinite(trainer.train_step()["loss"])


def test_the_plan_says_what_travels_together(comm):
    communicator = Communicator(comm, in_blocks(comm.size, 1))
    trainer = make_trainer("lm", "sgd", communicator, overlap=True)
    assert trainer.plan.buckets[0] == ("softmax_weight", "softmax_bias") and trainer.plan.buckets[-1] == ("embedding",)
    assert trainer.plan.pull_rounds == -(-8 // comm.size)
    together = [tuple(v.name for v in exchange.variables) for exchange in trainer.parameters.exchanges]
    assert together == list(trainer.plan.buckets)
    united = make_trainer("lm", "sgd", Communicator(comm, in_blocks(comm.size, comm.size)), overlap=True).plan
    assert united.pull_rounds == (1 if comm.size > 1 else 8)


def test_early_dense_gradients_leave_in_buckets_and_rows_in_two(comm, small):
    small(1)
    trainer = make_trainer("lm", "sgd", Communicator(comm, in_blocks(comm.size, 1)), overlap=None, device="cpu")
    assert comm.size == 1 or trainer.plan.pull_rounds == 1 and trainer.plan.buckets == (
        ("softmax_weight", "softmax_bias"), ("embedding",), ("lstm0/projection",), ("lstm0/bias",), ("lstm0/kernel",))


def test_by_itself_it_overlaps_where_few_ranks_share_a_core(comm, monkeypatch):
    """The last rank's host is the crowded one: all ranks come to one choice. One rank a machine needs no free core."""
    monkeypatch.setattr(overlap_choice, "ranks_on_host", lambda otherwise: 8)
    for last, crowded, each in ((8, "thread", (2,)), (4, "thread", (2,)), (3, "no", (1, 2, comm.size))):
        mine = list(range(last if comm.rank == comm.size - 1 else 8))
        monkeypatch.setattr(overlap_choice, "core_numbers", lambda mine=mine: mine)
        for machines in (in_blocks(comm.size, ranks) for ranks in each):
            trainer = make_trainer("toy", "sgd", Communicator(comm, machines), overlap=None, device="cpu")
            way = "no" if len(machines) == 1 else "early" if len(machines) == comm.size else crowded
            assert trainer.overlap == way and bool(trainer.overlap_choice.reason) == (len(machines) > 1)
            assert bool(trainer.plan.buckets) == (way != "no")
    assert make_trainer("toy", "sgd", Communicator(comm, in_blocks(comm.size, 1)), overlap=True).overlap == "thread"


def test_overlap_is_refused_where_mpi_does_not_allow_it(comm, monkeypatch):
    monkeypatch.setattr(Communicator, "threads", False)
    assert "MPI_THREAD_MULTIPLE" in refusal(comm, lambda: make_trainer("toy", "sgd", comm, overlap=True))
    several = in_blocks(comm.size, 2)
    assert make_trainer("toy", "sgd", Communicator(comm, several), overlap=None).overlap == "no"


class Telling(toys.Toy):
    """A toy that lets its gradients go one by one, and looks which exchanges are under way after each."""

    def loss_and_gradients(self, dense, rows, batch):
        loss, gradients = super().loss_and_gradients(dense, rows, batch)
        for variable in reversed(self.variables):
            batch.ready({variable.name: gradients[variable.name]})
            self.seen.append([exchange.variables[0].name for exchange in self.exchanges
                              if getattr(getattr(exchange, "allreduce", None), "under_way", None)])
        return loss, gradients


def test_early_a_sum_begins_when_the_last_microbatch_has_its_gradients(comm, small):
    small(1)
    model = Telling()
    trainer = Trainer.open(model, toys.toy_data(), toys.make_options("toy", "sgd", overlap=None, device="cpu"),
                           Communicator(comm, in_blocks(comm.size, 1)))
    model.seen, model.exchanges = [], trainer.parameters.exchanges
    trainer.train_step()
    dense = [v.name for v in reversed(model.variables) if not v.sparse]
    *before, last = [model.seen[i:i + len(model.variables)] for i in range(0, len(model.seen), len(model.variables))]
    assert not any(map(any, before))
    assert comm.size == 1 or last[0] and not set(dense) <= set(last[0]) and set(dense) <= set(last[-1])
