"""One answer, to the bit, of PyTorch's modules: any number of ranks, architecture, cutting of rows; after a resume."""

import json
import random
from pathlib import Path

import numpy as np
import pytest
import torch
from framework_toys import hold_that_no_rank_has_it_whole, text_of
from mpi4py import MPI
from test_optimizers import MOVING, moving
from toy_modules import LOSSES, TEXTS, data_of, model_of, module_of, squared, words

from models import Uniform
from refimpl.plain.training.hybrid import Hybrid, Options as PlainOptions
from refimpl.plan import Plan
from refimpl.plan.cost import metrics
from refimpl.torch import Normal, TorchModel
from refimpl.training.options import Options
from refimpl.training.run.directory import read_metrics
from refimpl.training.session import train
from refimpl.transport import CollectiveError

CASES = {"recommender": "adamw", "tied": "adagrad", "carried": "nesterov"}
SETTINGS = {"recommender": dict(architecture="ps", partitions=3), "tied": dict(overlap=True),
            "carried": dict(architecture="allreduce")}
"""One each: a model cannot tell which way its gradients travel."""
DTYPE = torch.float32
GROUPS = {"recommender": [{"params": ["items.weight", "hidden.weight"], "lr": 0.1, "weight_decay": 0.3},
                          {"params": ["tags.weight", "norm.weight", "norm.bias", "hidden.bias", "out.weight",
                                      "out.bias"],
                           "weight_decay": 0.0}]}

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]


def training_data(name):
    return text_of() if name in TEXTS else data_of(8, 2, DTYPE)


def options_of(name, steps, **changes):
    return Options(optimizer=CASES[name], learning_rate=0.05, steps=steps, clip_norm=0.5, weight_decay=0.01,
                   rate="cosine", rate_steps=9, **changes)


def answer(name, comm, steps=4, **changes):
    """Train a module over an epoch of three steps and into the next; return all that must be the same."""
    heldout = None if name in TEXTS else data_of(8, 2, DTYPE, shuffle=False)
    model = model_of(name, DTYPE, groups=GROUPS.get(name, ()))
    result = train(model, training_data(name), heldout, options=options_of(name, steps, **changes),
                   comm=comm)
    return result.loss, result.evaluation, result.parameters_sha256, result.state_sha256


@pytest.fixture(scope="module")
def one_rank(shared):
    """name -> the answer of one rank."""
    return shared(CASES, lambda name: answer(name, MPI.COMM_SELF))


@pytest.mark.parametrize("name", CASES)
def test_several_ranks_give_the_answer_of_one(comm, one_rank, name):
    assert answer(name, comm, **SETTINGS[name]) == one_rank[name]


def test_a_resumed_run_ends_as_one_that_was_not_interrupted(comm, one_rank, tmp_path):
    for name in CASES:
        folder = comm.bcast(str(tmp_path / name))
        model = model_of(name, DTYPE, groups=GROUPS.get(name, ()))
        train(model, training_data(name), options=options_of(name, 3), comm=comm, output=folder)
        model = model_of(name, DTYPE, groups=GROUPS.get(name, ()))
        result = train(model, training_data(name), options=options_of(name, 4, architecture="ps"),
                       comm=comm, output=folder, resume=folder)
        assert (result.parameters_sha256, result.state_sha256) == one_rank[name][2:]
        learned = module_of(name, DTYPE)
        TorchModel(learned, (LOSSES | TEXTS)[name][1]).load(folder)
        assert not torch.equal(learned.state_dict()["out.weight"], module_of(name, DTYPE).state_dict()["out.weight"])


def test_every_rank_has_what_was_learned(comm):
    """After a training, whatever the strategy: its result says so. A second training goes on from there."""
    for name in ("recommender", "tied"):
        model, found = model_of(name, DTYPE), []
        for _ in range(2):
            result = train(model, training_data(name), options=options_of(name, 2, **SETTINGS[name]), comm=comm)
            model.load(result)
            found.append(result.parameters_sha256)
        assert found[0] != found[1]


def test_the_plain_system_trains_a_module_to_the_same_bits(comm):
    """What ``refimpl.plain`` asks of a model, TorchModel has: it needs no plain version of its own."""
    found = {}
    for which in ("plain", "fast"):
        module = module_of("recommender", DTYPE)
        module.norm.momentum = 0.3
        model, data = TorchModel(module, squared, groups=GROUPS["recommender"]), data_of(8, 2, DTYPE)
        if which == "plain":
            plain = Hybrid(model, data, PlainOptions("adamw", 0.02, weight_decay=0.05), comm)
            for _ in range(3):
                plain.step()
            found[which] = plain.sha256()
        else:
            options = Options(optimizer="adamw", learning_rate=0.02, weight_decay=0.05, steps=3)
            found[which] = train(model, data, options=options, comm=comm).parameters_sha256
    assert comm.bcast(found["plain"]) == found["fast"]


def test_a_table_on_the_meta_device_is_never_whole_on_a_rank(comm):
    """No rank may hold it, nor makes it: rows start where they are kept, and are pulled where they are looked up."""
    rows, width = 20_000, 8

    def trained(each, **changes):
        with torch.device("meta"):
            table = torch.nn.Embedding(rows, width, padding_idx=3)
        model = TorchModel(table, lambda module, batch: module(batch.inputs[0] * 499).square().sum())
        assert model.variables[0].initial == Normal(zeros=(3 * width, 4 * width))
        options = Options(architecture="ps", optimizer="sgd", steps=2, **changes)
        return train(model, data_of(), options=options, comm=each).parameters_sha256

    hold_that_no_rank_has_it_whole(comm, trained, rows * width * 4)


def test_what_a_loss_reports_is_one_number_and_its_bytes_are_the_formulas(comm, tmp_path):
    def loss(module, batch):
        batch.metrics["largest"], batch.metrics["third"] = batch.targets.abs().max(), len(batch.targets) / 3
        return squared(module, batch)

    found = []
    for each in (comm, MPI.COMM_SELF):
        folder = comm.bcast(str(tmp_path)) if each is comm else str(tmp_path / "own")
        train(TorchModel(module_of("recommender"), loss, metrics=["largest", "third"]), data_of(), comm=each,
              options=Options(steps=3), output=folder)
        comm.barrier()
        found.append(read_metrics(folder))
    assert [line["metrics"] for line in found[0]] == [line["metrics"] for line in found[1]]
    plan = Plan.from_json(json.loads((Path(comm.bcast(str(tmp_path))) / "plan.json").read_text()))
    sent = metrics(plan, ["largest", "third"])["metrics", "", "control"].sum(axis=1).tolist()
    assert [line["bytes_sent"]["metrics"][""]["control"] for line in found[0]] == [sent] * 3


def test_buffers_that_a_forward_pass_changes(comm):
    found = []
    for each in (comm, MPI.COMM_SELF):
        module = moving()
        result = train(TorchModel(module, squared, buffers=MOVING), data_of(8, 2), data_of(8, 2), comm=each,
                       options=Options(steps=4, optimizer="sgd", learning_rate=0.05))
        buffers = [module.get_buffer(name).tolist() for name in MOVING]
        found.append((result.parameters_sha256, result.evaluation, buffers))
    assert found[0] == found[1]


def test_numpys_and_pythons_random_numbers_are_of_the_microbatch(comm):
    """Mixup and stochastic depth, as many write them; whoever draws from the same numbers besides goes on undisturbed.
    """
    def mixed(module, batch):
        share = np.random.beta(2, 2) if random.random() < 0.75 else 1.0
        return share * words(module, batch)

    def trained(each):
        return train(TorchModel(module_of("tied"), mixed), data_of(), options=Options(steps=3), comm=each)

    random.seed(comm.rank)
    np.random.seed(comm.rank)
    found = [trained(each) for each in (comm, MPI.COMM_SELF)]
    assert found[0].parameters_sha256 == found[1].parameters_sha256 and found[0].loss == found[1].loss
    drawn = random.random(), np.random.random()
    random.seed(comm.rank)
    np.random.seed(comm.rank)
    assert drawn == (random.random(), np.random.random())


def test_where_parameters_on_the_meta_device_start(comm):
    with torch.device("meta"):
        module = torch.nn.Linear(3, 2)
    model = TorchModel(module, LOSSES["recommender"][1], initial={name: Uniform(0.5) for name in ("weight", "bias")})
    assert all(np.abs(v.initial_value(1)).max() < 0.5 for v in model.variables)


def test_ranks_whose_modules_differ_are_told(comm):
    if comm.size == 1:
        pytest.skip("one rank agrees with itself")
    for change, said in (("value", "the beginning of variable"), ("constant", "constants=")):
        module = module_of("tied")
        if comm.rank == 1:
            with torch.no_grad():
                (module.out.weight if change == "value" else module.order).view(-1)[0] += 1
        with pytest.raises(CollectiveError, match=f"the ranks disagree.*{said}.*draw from the same seed"):
            train(TorchModel(module, LOSSES["tied"][1]), data_of(), options=Options(steps=1), comm=comm)


def test_a_parameter_that_one_rank_does_not_use(comm):
    """Which microbatches use it, data decide; where nobody says so, all ranks end with its name."""
    class Sometimes(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.always, self.rare = (torch.nn.Parameter(torch.ones((), dtype=torch.float64)) for _ in range(2))

        def forward(self, targets):
            x = self.always * targets.square().sum()
            return x * self.rare if targets[0] > 0 else x

    def loss(module, batch):
        return module(batch.targets)

    with pytest.raises(CollectiveError, match="rare is not used in a microbatch"):
        train(TorchModel(Sometimes(), loss), data_of(), options=Options(steps=1), comm=comm)
    found = [train(TorchModel(Sometimes(), loss, unused="zero"), data_of(), options=Options(steps=3), comm=each)
             for each in (comm, MPI.COMM_SELF)]
    assert found[0].parameters_sha256 == found[1].parameters_sha256
