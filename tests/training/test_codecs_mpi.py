"""Encoded gradients: one answer on any number of ranks, that of the plain codec; its bytes; and what is refused."""

from dataclasses import replace

import numpy as np
import pytest
from mpi4py import MPI
from test_bytes_mpi import ON_MACHINES, check
from toys import SETTINGS, WORKS, answer, make_options, make_trainer, plain_answer, refusal

from kernels import RowGradient
from kernels.rows.definition import merge_rows
from refimpl.plain import hybrid
from refimpl.plain.codecs import Rounded
from refimpl.plain.tree import add_up, cover
from refimpl.training.session import train
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = pytest.mark.mpi

BOTH = {"dense": "bf16", "sparse": "fp16"}
WAYS = {**SETTINGS, "hot rows": dict(hot_rows=13, partitions=3), "overlap": dict(overlap=True),
        "other partitions": dict(architecture="ps", partitions=5, scheme="contiguous")}


def plain_sum(kinds, first, gradients, add):
    """In the place of ``form_nodes``: the sum of leaves, each encoded by itself, as the first node; others: nothing."""
    rows = hasattr(gradients[0], "ids")
    codec = Rounded(kinds["sparse" if rows else "dense"])

    def encoded(array):
        return codec.decode(codec.encode(array.reshape(-1), 0, None)).reshape(array.shape)

    def merge(left, right):
        if not rows:
            return encoded(left + right)
        both = merge_rows(left, right)
        return RowGradient(both.ids, encoded(both.rows))

    leaves = [RowGradient(g.ids, encoded(np.ascontiguousarray(g.rows))) if rows else encoded(np.asarray(g))
              for g in gradients]
    total = add_up(0, len(leaves), {(i, i + 1): leaf for i, leaf in enumerate(leaves)}, merge)
    nothing = RowGradient(total.ids[:0], total.rows[:0]) if rows else np.full_like(total, -0.0)
    return {node: nothing if node[0] else total for node in cover(0, len(leaves))}


@pytest.fixture
def plain(monkeypatch):
    """Return the plain answer of a work whose gradients are encoded; statistics are not."""
    form_nodes = hybrid.form_nodes

    def found(work, optimizer, kinds, **changes):
        statistics = {v.name for v in WORKS[work][0]().variables if v.statistic}
        names = iter(())

        class Encoded(hybrid.Hybrid):
            def step(self):
                nonlocal names
                names = iter([v.name for v in self.variables])
                super().step()

        def nodes(first, gradients, add):
            return form_nodes(first, gradients, add) if next(names) in statistics else plain_sum(
                kinds, first, gradients, add)

        with monkeypatch.context() as patched:
            patched.setattr(hybrid, "form_nodes", nodes)
            patched.setattr("toys.Hybrid", Encoded)
            return plain_answer(MPI.COMM_SELF, work, optimizer, changes)

    return found


@pytest.mark.parametrize("work, microbatches", [("toy", 8), ("toy", 7), ("lm", 8), ("cnn", 8)])
@pytest.mark.thorough("toy")
def test_one_answer_by_every_way(comm, plain, work, microbatches):
    for kinds in (BOTH, dict(zip(BOTH, reversed(BOTH.values())))):
        expected = plain(work, "adam", kinds, microbatches=microbatches)
        assert expected != plain_answer(MPI.COMM_SELF, work, "adam", {"microbatches": microbatches})
        for way, settings in WAYS.items():
            found = answer(work, "adam", comm, codec=kinds, microbatches=microbatches, **settings)
            assert found == expected, way


def test_one_answer_on_machines_and_with_several_microbatches_less_than_ranks(comm, plain):
    for settings in ON_MACHINES:
        for microbatches in (7, 2):
            communicator = Communicator(comm, in_blocks(comm.size, 2))
            found = answer("toy", "adam", communicator, codec=BOTH, microbatches=microbatches, **settings)
            assert found == plain("toy", "adam", BOTH, microbatches=microbatches), settings


@pytest.mark.parametrize("way", WAYS)
def test_the_ledger_is_the_prediction(comm, way):
    for machines in (None, in_blocks(comm.size, 2)):
        check(comm, "toy", 7, {**WAYS[way], "codec": BOTH}, machines)


@pytest.mark.mpi(min_size=2)
def test_gradients_take_half_the_bytes(comm):
    def sent(**changes):
        trainer = make_trainer("lm", "sgd", comm, shared_memory=False, **changes)
        trainer.train_step()
        ledger = trainer.comm.ledger
        return [ledger.total(phase="allreduce"), ledger.total(phase="push", kind="rows"),
                ledger.total(phase="pull", kind="rows"), ledger.total(kind="indices")]

    dense, rows, values, numbers = sent()
    assert dense > 0 and sent(codec={"dense": "bf16"}) == [dense // 2, rows, values, numbers]
    assert sent(codec={"sparse": "fp16"}) == [dense, rows // 2, values, numbers]


@pytest.mark.mpi(min_size=3)
def test_a_checkpoint_goes_on_on_other_ranks_in_another_way(comm, tmp_path):
    (model, data, _), path, everyone = WORKS["toy"], comm.bcast(tmp_path) / "run", Communicator.of(comm)
    chain = [(1, "hybrid"), (3, "reduce-scatter"), (2, "as-dense"), (3, "ps")]
    options = make_options("toy", "adam", codec=BOTH)
    whole = train(model(), data(), options=replace(options, steps=len(chain)), comm=MPI.COMM_SELF)
    for step, (count, way) in enumerate(chain, 1):
        if some := everyone.first(count):
            found = train(model(), data(), comm=some, output=path, resume=path if step > 1 else None,
                          options=replace(options, steps=step, **WAYS[way]))
            assert found.parameters_sha256 == whole.parameters_sha256 or step < len(chain)
            some.free()
        everyone.meet()
    message = refusal(comm, lambda: train(model(), data(), comm=comm, resume=path, options=replace(options, codec={})))
    assert "codec was {'table': 'fp16', 'weight': 'bf16'" in message and "and is now {}" in message


REFUSED = [
    (dict(codec={"ghost": "bf16"}), "--codec ghost=bf16: the model has no such variables; say dense, sparse, or one of "
                                    "table, weight"),
    (dict(codec={"mean": "bf16"}), "'mean' is a statistic, not a gradient"),
    (dict(codec=BOTH, architecture="ps", consistency="asynchronous", clip_norm=None), "without barriers gradients are "
                                                                                      "not encoded"),
]


@pytest.mark.parametrize("changes, words", REFUSED)
def test_what_does_not_fit_is_refused(comm, changes, words):
    assert words in refusal(comm, lambda: make_trainer("toy", "adam", comm, **changes))


@pytest.mark.mpi(min_size=3)
def test_a_ring_is_refused_where_it_sums_encoded_gradients(comm):
    message = refusal(comm, lambda: make_trainer("toy", "adam", comm, codec=BOTH, allreduce="ring"))
    assert "--codec weight=bf16 rounds at every node of the microbatch tree, and --allreduce ring adds in" in message
    make_trainer("toy", "adam", comm, codec={"sparse": "bf16"}, allreduce="ring")
