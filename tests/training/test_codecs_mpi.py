"""Encoded gradients: one answer on any number of ranks, that of the plain codec; its bytes; and what is refused."""

import json
import math
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from mpi4py import MPI
from test_bytes_mpi import ON_MACHINES, check, counted
from toys import OF_DENSE, WAYS, WORKS, Script, Scripted, answer, make_options, make_trainer, plain_answer, refusal

from kernels import RowGradient
from kernels.random import key_of, uniform
from kernels.rows.definition import merge_rows
from refimpl.collectives.simulation.network import Network
from refimpl.plain.adding.tree import add_up, cover, sum_on
from refimpl.plain.encoding.codecs import Rounded
from refimpl.plain.encoding.encoded_steps import EncodedSteps
from refimpl.plain.encoding.power_sgd import first_q
from refimpl.plain.encoding.residuals import dgc_ratio
from refimpl.plain.training import hybrid
from refimpl.plan.codecs import codecs_of
from refimpl.strategies import GatheredElements
from refimpl.training.options import Options
from refimpl.training.planning.planning import write_network
from refimpl.training.session import train
from refimpl.training.trainer import Trainer
from refimpl.transport import Communicator
from refimpl.transport.machines import in_blocks

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(3, 4)]

BOTH = {"dense": "bf16", "sparse": "fp16"}
INTEGERS = {"dense": "integers:16", "sparse": "bf16"}
PICKED = {"dense": "topk:0.1", "sparse": "bf16"}
ALONE = [{"dense": codec, "sparse": "fp16"} for codec in ("onebit", "powersgd:2", "qsgd:7", "terngrad", "threshold:0.01",
                                                            "adacomp:20", "dgc:0.1:1:0.05")]
"""Codecs that only one strategy carries. Messages of a fixed size come first."""


NUMBERS = {"integers": 16, "qsgd": 7, "terngrad": 2.5, "threshold": 0.01, "adacomp": 20}
"""Of the codecs above, as the conformance suite has them."""


class Sums(EncodedSteps):
    """The sums of a dense variable's gradients, all microbatches on one rank: what the conformance suite divides."""

    def __init__(self, kind, name, gradients):
        codec, *numbers = kind.split(":")
        low = codec == "powersgd"
        q = first_q(uniform(key_of(Options().seed, "power sgd", name), gradients[0].shape[-1] * 2), 2) if low else None
        super().__init__(SimpleNamespace(allgather=lambda mine: [mine]), SimpleNamespace(
            codec=codec, number=NUMBERS.get(codec), size=gradients[0].size, units=1 if low else len(gradients),
            momentum=0.9, clip=float(numbers[-1]) if numbers else None, q=q))

    def codec(self, gradients):
        if self.task.codec in ("topk", "dgc"):
            ratio = dgc_ratio(0.1, self.done, self.task.codec == "dgc")
            self.task.number = max(1, math.ceil(ratio * self.task.size))
        return super().codec(gradients)

    def mean(self, codec, messages):
        return codec.decode(sum_on(1, messages, codec.merge))


def summed_rows(codec, gradients):
    """Return the sum of row gradients, rounded at each node of the tree."""
    def encoded(gradient):
        rows = np.ascontiguousarray(gradient.rows)
        return RowGradient(gradient.ids, codec.decode(codec.encode(rows.reshape(-1), 0, None)).reshape(rows.shape))

    return add_up(0, len(gradients), {(v, v + 1): encoded(g) for v, g in enumerate(gradients)},
                  lambda left, right: encoded(merge_rows(left, right)))


@pytest.fixture
def plain(monkeypatch):
    """Return the plain answer of a work whose gradients are encoded; statistics are not."""
    form_nodes = hybrid.form_nodes

    def found(work, optimizer, kinds, **changes):
        variables = WORKS[work][0]().variables
        codecs = codecs_of(variables, kinds) | {v.name: "identity" for v in variables if not v.size}
        at_hand, sums = iter(()), {}

        class Encoded(hybrid.Hybrid):
            def step(self):
                nonlocal at_hand
                at_hand = iter([(v.name, self.steps_done) for v in self.variables])
                super().step()

        def nodes(first, gradients, add):
            name, step = next(at_hand)
            if codecs[name] == "identity":
                return form_nodes(first, gradients, add)
            if hasattr(gradients[0], "ids"):
                total = summed_rows(Rounded(kinds["sparse"]), gradients)
                nothing = RowGradient(total.ids[:0], total.rows[:0])
            else:
                flat = {v: np.ravel(g) for v, g in enumerate(gradients)}
                drawn = {v: uniform(key_of(0, "codec", step, name, v), g.size) for v, g in flat.items()}
                sums[name] = sums.get(name) or Sums(kinds["dense"], name, gradients)
                total = sums[name].step(flat, drawn)[2].reshape(gradients[0].shape)
                nothing = np.full_like(total, -0.0)
            return {node: nothing if node[0] else total for node in cover(0, len(gradients))}

        with monkeypatch.context() as patched:
            patched.setattr(hybrid, "form_nodes", nodes)
            patched.setattr("toys.Hybrid", Encoded)
            return plain_answer(MPI.COMM_SELF, work, optimizer, {**changes, "device": "cpu"})

    return found


@pytest.mark.ranks(3)
@pytest.mark.parametrize("work, microbatches", [("toy", 8), ("toy", 7), ("lm", 8), ("cnn", 8)])
@pytest.mark.thorough("toy-8")
def test_one_answer_by_every_way(comm, plain, work, microbatches):
    for kinds, ways in ((BOTH, OF_DENSE if work == "cnn" else WAYS),
                        (dict(zip(BOTH, reversed(BOTH.values()))), ("hybrid",)),
                        *((kinds, OF_DENSE) for kinds in (INTEGERS, PICKED, ALONE[0]))):
        if work == "cnn":  # it has no rows
            kinds = {"dense": kinds["dense"]}
        expected = plain(work, "adam", kinds, microbatches=microbatches)
        assert expected != plain_answer(MPI.COMM_SELF, work, "adam", {"microbatches": microbatches})
        for way in ways:
            assert answer(work, "adam", comm, codec=kinds, microbatches=microbatches, **WAYS[way]) == expected, way


@pytest.mark.ranks(4)
def test_one_answer_on_machines_and_with_several_microbatches_less_than_ranks(comm, plain):
    for kinds, microbatches in ((BOTH, 7), (BOTH, 2), (INTEGERS, 7), (PICKED, 2), (ALONE[0], 2)):
        expected = plain("toy", "adam", kinds, microbatches=microbatches)
        for settings in ON_MACHINES if (kinds, microbatches) == (BOTH, 7) else ON_MACHINES[::3]:
            communicator = Communicator(comm, in_blocks(comm.size, 2))
            found = answer("toy", "adam", communicator, codec=kinds, microbatches=microbatches, **settings)
            assert found == expected, settings


@pytest.mark.ranks(3)
@pytest.mark.parametrize("kinds", ALONE[1:], ids=lambda kinds: kinds["dense"])
@pytest.mark.thorough("powersgd", "threshold", "dgc")
def test_codecs_of_a_strategy_of_their_own_have_one_answer(comm, plain, kinds):
    changes = {"microbatches": 7, **({"clip_norm": None} if kinds == ALONE[-1] else {})}  # DGC clips by itself
    expected = plain("lm", "sgd", kinds, **changes)
    for architecture in ("hybrid", "ps"):
        assert answer("lm", "sgd", comm, codec=kinds, architecture=architecture, **changes) == expected
    if kinds == ALONE[-1]:
        assert plain("lm", "sgd", {**kinds, "dense": "dgc:0.1:1:1e9"}, **changes) != expected


@pytest.mark.mpi(min_size=8)
def test_one_answer_on_eight_ranks(comm, plain):
    for kinds in (BOTH, INTEGERS, PICKED, ALONE[0]):
        expected = plain("toy", "adam", kinds, microbatches=11)
        for way, settings in WAYS.items():
            assert answer("toy", "adam", comm, codec=kinds, microbatches=11, **settings) == expected, way


@pytest.mark.ranks(3)
def test_integers_have_one_answer_on_a_ring_too(comm, plain):
    expected = plain("lm", "adam", INTEGERS)
    for allreduce in ("ring", "double-tree", "rabenseifner"):
        assert answer("lm", "adam", comm, codec=INTEGERS, allreduce=allreduce) == expected, allreduce


@pytest.mark.ranks(3)
@pytest.mark.parametrize("kinds, ways", [(BOTH, WAYS), (INTEGERS, OF_DENSE), (ALONE[0], OF_DENSE[-1:]),
                                         (ALONE[1], OF_DENSE[-1:])], ids=["rounded", "integers", "onebit", "powersgd"])
@pytest.mark.thorough("integers", "onebit", "powersgd")
def test_the_ledger_is_the_prediction(comm, kinds, ways):
    """On machines of two ranks and of one by turns."""
    for number, way in enumerate(ways):
        check(comm, "lm" if kinds in ALONE[1:] else "toy", 7, {**WAYS[way], "codec": kinds},
              None if number % 2 else in_blocks(comm.size, 2))


@pytest.mark.ranks(3)
@pytest.mark.parametrize("way", ["ps", "overlap"])
def test_picked_elements_take_8_bytes_each_and_what_is_left_out_is_kept(comm, way):
    trainer, sums = make_trainer("lm", "adam", comm, 7, codec=PICKED, **WAYS[way]), []
    trainer.consistency.after_computing = lambda number, losses, formed: sums.append(formed)
    dense = [v for v in trainer.model.variables if not v.sparse]
    placed = [(v, trainer.plan.strategies[v.name]) for v in dense]
    for _ in range(2):
        trainer.train_step()
        mine = {v.name: [nodes[v.name].ids for exchange in sums[-1] for nodes in exchange.values() if v.name in nodes]
                for v in dense}
        pushed = {v.name: [of[v.name] for of in comm.allgather(mine)] for v in dense}
        predicted, most = (GatheredElements.bytes_between(placed, trainer.plan, lambda v, of=of: ((), of.get(v.name, ())))
                           for of in (pushed, {}))
        found = {key: value for key, value in counted(trainer.comm.ledger).items() if key[0] == "allgather"}
        assert found.keys() == (predicted.keys() if comm.size > 1 else set())
        for key, moved in found.items():
            assert moved == (predicted[key][comm.rank].sum(), predicted[key][:, comm.rank].sum())
            assert (predicted[key] <= most[key]).all()  # so many if no two microbatches pick the same
    assert all(array.any() for array in trainer.residuals().values())


@pytest.mark.ranks(3)
@pytest.mark.mpi(min_size=3)
@pytest.mark.parametrize("codec, work", [(BOTH, "toy"), (PICKED, "toy"), (ALONE[0], "toy"), (ALONE[1], "lm"),
                                         (ALONE[-1], "toy")], ids=["rounded", "picked", "alone", "low rank", "dgc"])
@pytest.mark.thorough("picked", "low rank")
def test_a_checkpoint_goes_on_on_other_ranks_in_another_way(comm, tmp_path, codec, work):
    (model, data, _), path, everyone = WORKS[work], comm.bcast(tmp_path) / "run", Communicator.of(comm)
    chain = [(1, "hybrid"), (3, "reduce-scatter"), (2, "as-dense"), (3, "ps")]
    options = make_options(work, "adam", codec=codec)
    if codec == ALONE[-1]:
        options = replace(options, optimizer="sgd", learning_rate=0.1, clip_norm=None)
    whole = train(model(), data(), options=replace(options, steps=len(chain)), comm=MPI.COMM_SELF)
    for step, (count, way) in enumerate(chain, 1):
        if some := everyone.first(count):
            found = train(model(), data(), comm=some, output=path, resume=path if step > 1 else None,
                          options=replace(options, steps=step, **WAYS[way]))
            assert found.parameters_sha256 == whole.parameters_sha256 or step < len(chain)
            some.free()
        everyone.meet()
    message = refusal(comm, lambda: train(model(), data(), comm=comm, resume=path, options=replace(options, codec={})))
    assert work == "lm" or f"codec was {{'table': '{codec['sparse']}', 'weight': '{codec['dense']}'" in message
    assert "and is now {}" in message


@pytest.mark.ranks(3)
def test_what_auto_has_chosen_is_said_like_what_was_asked_for(comm, tmp_path):
    """From then on the run has these codecs, on any network: others would give other numbers."""
    path, everyone = comm.bcast(tmp_path), Communicator.of(comm)
    if comm.rank == 0:
        slow = Network(everyone.machines, 5e-5, 1e5, 1e5, memory_bandwidth=1e5)
        write_network(path / "run" / "network.json", slow.to_dict())
    everyone.meet()
    (model, data, _), asked = WORKS["toy"], {"dense": "integers:32/bf16"}
    options = make_options("toy", "adam", architecture="auto", codec=asked)
    train(model(), data(), comm=comm, output=path / "run", options=replace(options, steps=2))
    kept = json.loads((path / "run" / "config.json").read_text())["options"]["codec"]
    assert kept == dict.fromkeys(("weight", "bias", "empty", "scale"), "bf16")
    found = train(model(), data(), comm=comm, output=path / "run", resume=path / "run",
                  options=replace(options, codec=kept, architecture="ps", steps=4))
    whole = train(model(), data(), comm=comm, options=replace(options, codec=kept, architecture="hybrid", steps=4))
    assert found.parameters_sha256 == whole.parameters_sha256


@pytest.mark.ranks(3)
@pytest.mark.parametrize("which", ["dense", "rows"])
def test_a_sum_beyond_fp16_ends_the_training(comm, which):
    """Each microbatch is within its range, the sum of four is not; bf16 holds it."""
    for codec, ends in (("bf16", False), ("fp16", True)):
        options = Options(optimizer="sgd", learning_rate=0.1, codec={which: codec})
        trainer = Trainer.open(Scripted(), Script([[{0: [4e4, 0]}] * 4]), options, comm)
        if ends:
            message = refusal(comm, trainer.train_step)
            assert f"the sum of the microbatches' gradients of '{which}' overflows: it is not finite" in message
        else:
            assert trainer.train_step()["gradient_norm"] > 1e5


@pytest.mark.mpi(min_size=3)
def test_a_ring_is_refused_where_it_sums_encoded_gradients(comm):
    message = refusal(comm, lambda: make_trainer("toy", "adam", comm, codec=BOTH, allreduce="ring"))
    assert "--codec weight=bf16 rounds at every node of the microbatch tree, and --allreduce ring adds in" in message
    make_trainer("toy", "adam", comm, codec={"sparse": "bf16"}, allreduce="ring")
