"""Trainings without barriers on real ranks: each is replayed from its record, alone, to the bit."""

import time
from importlib import import_module

import numpy as np
import pytest
from toys import Toy, make_options, toy_data

from refimpl.plain.messages import Messages
from refimpl.plain.training.agreement import Stopped
from refimpl.plain.training.hybrid import Hybrid
from refimpl.plain.without_barriers.async_server import AsyncServer, PUSH, train
from refimpl.plain.without_barriers.decentralised import easgd, gossip, local_steps, meet, over, partner, stacked
from refimpl.plain.without_barriers.owner import sha256
from refimpl.plain.without_barriers.replay import replay
from refimpl.plain.without_barriers.scripted_clock import cluster

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
MODEL, STEPS = Toy(), 5
CASES = {"asynchronous": "none", "asynchronous dc": "dc-asgd", "asynchronous adaptive": "dc-asgd-adaptive",
         "bounded:0": "none", "bounded:2": "staleness-aware", "snapshot:1": "none", "softsync:1": "dc-asgd",
         "synchronous": "none"}


def options(case="", optimizer="adam"):
    return make_options("toy", "sgd" if CASES.get(case) == "staleness-aware" else optimizer, clip_norm=None)


def drain(comm):
    """Take what nobody asked for any more. Collective."""
    comm.Barrier()
    while comm.iprobe():
        comm.recv()
    comm.Barrier()


def made(comm, case, microbatches=8):
    return cluster(MODEL, toy_data(microbatches), options(case), comm.size, STEPS, case.split()[0], CASES.get(case, "none"))


@pytest.mark.parametrize("case", [*CASES, "backup:1"])
def test_the_records_give_the_same_parameters(comm, case):
    if case == "backup:1" and comm.size == 1:
        case = "backup:0"
    expected, records = train(comm, MODEL, toy_data(), options(case), STEPS, case.split()[0], CASES.get(case, "none"))
    replay(*made(comm, case), MODEL.variables, records, expected)
    assert not comm.iprobe()  # nothing is under way
    if not case.startswith("backup"):
        assert all(record.count(rank) == 2 * STEPS + 1 for record in records for rank in range(comm.size))


@pytest.mark.mpi(min_size=2)
@pytest.mark.parametrize("case, ahead", [("asynchronous", STEPS), ("bounded:2", 2), ("synchronous", 0)])
def test_a_slow_rank_is_waited_for_as_its_consistency_says(comm, case, ahead):
    """The last rank's first step lasts until the others, as its owner sees them, are as far as they may come."""
    owners, shares = made(comm, case)
    owner, share, slow = owners[comm.rank], shares[comm.rank], comm.size - 1
    computing, entries = share.gradients, min(2 * ahead + 2, 2 * STEPS + 1)  # pushes, and the pulls before and behind

    def compute(clock, values):
        end = time.monotonic() + 60
        while clock == 0 and min(map(owner.record.count, range(slow))) < entries and time.monotonic() < end:
            time.sleep(0.01)
        return computing(clock, values)

    if comm.rank == slow:
        share.gradients = compute
    server = AsyncServer(comm, owner, share, MODEL.variables)
    server.train()
    records, expected = comm.allgather(owner.record), sha256(MODEL.variables, comm.allgather(owner.values))
    first_push = [i for i, worker in enumerate(records[slow]) if worker == slow][1]
    assert {records[slow][:first_push].count(rank) for rank in range(slow)} == {entries}
    replay(*made(comm, case), MODEL.variables, records, expected)


@pytest.mark.mpi(min_size=2)
def test_an_error_in_a_computation_is_raised(comm):
    """On its rank; the others give up by themselves."""
    owners, shares = made(comm, "synchronous")
    if comm.rank == 0:
        shares[0].gradients = lambda clock, values: {}["no such gradient"]
    with pytest.raises(Stopped if comm.rank else KeyError):
        AsyncServer(comm, owners[comm.rank], shares[comm.rank], MODEL.variables, seconds=0.5).train()
    drain(comm)


@pytest.mark.parametrize("optimizer", ["momentum", "adam"])
def test_synchronous_is_the_hybrid(comm, optimizer):
    """Of any number of workers with a microbatch each, or with nodes of the tree each; not of three with 8 in all."""
    for microbatches in (comm.size, 8):
        data = toy_data(microbatches)
        found, _ = train(comm, MODEL, data, options(optimizer=optimizer), STEPS, "synchronous")
        training = Hybrid(MODEL, data, options(optimizer=optimizer), comm, "ps")
        for _ in range(STEPS):
            training.step()
        assert (found == training.sha256()) == (microbatches == comm.size or comm.size != 3)


def test_a_push_that_is_lost_or_not_written_down_is_noticed(comm):
    """Each checker has a server that it refuses: on rank 0 the second push is lost, doubled, or missing in the record."""
    class Careless(AsyncServer):
        pushes = 0

        def take(self, what, rank, tag):
            self.pushes += tag == PUSH
            if self.comm.rank or tag != PUSH or self.pushes != 2:
                super().take(what, rank, tag)
            elif self.how == "not written down":
                super().take(what, rank, tag)
                self.owner.record.pop(len(self.owner.record) - 1 - self.owner.record[::-1].index(rank))
            elif self.how == "doubled":
                pulled = self.owner.pulled[rank]
                super().take(what, rank, tag)
                if rank not in self.owner.pulled:
                    self.owner.pulled[rank] = pulled
                    self.owner.push(rank, what)

    for Careless.how in ("lost", "doubled", "not written down"):
        owners, shares = made(comm, "asynchronous")
        server = Careless(comm, owners[comm.rank], shares[comm.rank], MODEL.variables)
        server.train()
        records, expected = comm.allgather(server.owner.record), sha256(MODEL.variables, comm.allgather(server.owner.values))
        with pytest.raises(ValueError, match="swapped or damaged|entries are swapped|they are cut"):
            replay(*made(comm, "asynchronous"), MODEL.variables, records, expected)


@pytest.mark.mpi(min_size=2)
def test_who_does_not_answer_is_told_by_those_who_wait(comm):
    owners, shares = made(comm, "asynchronous")
    if comm.rank:
        words = rf"rank {comm.rank}, in step 0, has waited 0.5 s for answers of owners \[0"
        with pytest.raises(Stopped, match=words):
            AsyncServer(comm, owners[comm.rank], shares[comm.rank], MODEL.variables, seconds=0.5).train()
    drain(comm)


def test_replicas_on_ranks_are_those_in_one_array(comm):
    """Each of them, to the bit."""
    messages, n = Messages(comm), comm.size
    wanted = np.random.default_rng(0).standard_normal((n, 7)).astype(np.float32)
    examples = np.arange(1, n + 1, dtype=np.float32).reshape(n, 1) * np.ones((1, 7), np.float32)
    x, y, z = (np.zeros((n, 7), np.float32) for _ in range(3))
    centre = np.zeros(7, np.float32)
    own = [x[comm.rank], centre, x[comm.rank], x[comm.rank]]

    def step(to):
        return lambda x: x - np.float32(0.1) * (x - to)

    for number in range(6):
        x, centre = easgd(x, centre, step(wanted), 0.1, stacked)
        y = gossip(y, y[[partner(rank, n, number) for rank in range(n)]], step(wanted))
        z = np.repeat(local_steps(z, step(wanted), 3, examples, stacked)[None], n, axis=0)
        mine = step(wanted[comm.rank])
        own[:2] = easgd(own[0], own[1], mine, 0.1, over(messages))
        own[2] = gossip(own[2], meet(messages, own[2], number), mine)
        own[3] = local_steps(own[3], mine, 3, examples[comm.rank], over(messages))
        for found, expected in zip(own, (x[comm.rank], centre, y[comm.rank], z[comm.rank])):
            assert found.dtype == np.float32 and found.tobytes() == expected.tobytes()


@pytest.mark.parametrize("module, words", [("async_server", "the replay of the records on one rank gives the same"),
                                           ("decentralised", "local steps ")])
def test_the_files_show_it(comm, capfd, module, words):
    import_module(f"refimpl.plain.without_barriers.{module}").main(comm)
    lines = comm.bcast(capfd.readouterr().out.splitlines())
    assert len(lines) == comm.size + (module == "async_server") and words in lines[-1]
