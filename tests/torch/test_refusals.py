"""What cannot be trained, or would be trained wrongly, is named with its remedy: before the first step, or in it."""

import itertools
from functools import partial

import numpy as np
import pytest
import torch
from mpi4py import MPI
from framework_toys import computed
from toy_modules import LOSSES, Recommender, batch_of, data_of, model_of, module_of
from torch import nn
from torch.nn import functional

from models import Uniform
from refimpl.cli import main
from refimpl.torch import TorchModel
from refimpl.training.options import Options
from refimpl.training.session import train
from refimpl.transport import CollectiveError

squared = LOSSES["recommender"][1]
DOUBLE = {"dtype": torch.float64}


def total(module, batch):
    return module(batch.inputs[0], batch.inputs[2]).sum()


def one(**parts):
    """Return a module of such parts, with nothing to call."""
    module = nn.Module()
    for name, part in parts.items():
        setattr(module, name, part)
    return module


@pytest.mark.parametrize("module, said", [
    (nn.Linear, "give TorchModel a torch.nn.Module"),
    (nn.DataParallel(nn.Linear(2, 2)), "give TorchModel module.module"),
    (one(part=torch.jit.script(nn.Linear(2, 2))), "part is a ScriptModule.*as it was before torch.jit.script"),
    (nn.LazyLinear(3), "weight is a lazy parameter, whose shape is not known yet: call the module once"),
    (nn.Linear(2, 2).half(), "weight is float16: trainings are of float32 or float64; say module.float()"),
    (nn.Linear(2, 2, dtype=torch.complex64), "weight is complex64"),
    (nn.Embedding(4, 2, max_norm=1.0), "weight has max_norm=1.0: it would change rows while they are looked up"),
    (nn.EmbeddingBag(4, 2, scale_grad_by_freq=True), "weight has scale_grad_by_freq=True: frequencies are those of a"),
    (nn.BatchNorm1d(2, momentum=None), "has momentum=None"),
    (nn.SyncBatchNorm(2), "is SyncBatchNorm, which exchanges between ranks itself: take BatchNorm"),
    (nn.Linear(2, 2, device="meta"), "weight is on the meta device, and has no values: give it some"),
    (one(lin=nn.Linear(2, 2), mask=nn.Parameter(torch.empty(2, device="meta"), False)), "mask is on the meta device"),
], ids=["class", "wrapped", "scripted", "lazy", "half", "complex", "max-norm", "by-frequency", "cumulative",
        "sync", "meta", "meta-constant"])
def test_modules_that_cannot_be_trained(module, said):
    with pytest.raises(ValueError, match=said):
        TorchModel(module, total)


@pytest.mark.parametrize("options, said", [
    (dict(dense=["nothing"]), "dense names nothing, which is no parameter of Recommender; it has items.weight"),
    (dict(initial={"norm.running_mean": Uniform(1)}), "initial names norm.running_mean, which is no trained parameter"),
    (dict(unused="ignore"), "unused='ignore': choose 'refuse' or 'zero'"),
    (dict(loss=3), "the loss is 3: give a function"),
    (dict(loss=nn.CrossEntropyLoss()), r"the loss is CrossEntropyLoss\(\): give a function"),
    (dict(module=Recommender(sparse=True), dense=["items.weight"]), "items.weight has sparse=True, and is used as a "
                                                                    "dense variable"),
])
def test_options_that_cannot_be_meant(options, said):
    with pytest.raises(ValueError, match=said):
        TorchModel(**{"module": module_of("recommender"), "loss": squared, **options})


class Strange(nn.Module):
    """A module that does one thing which it may not."""

    def __init__(self, do):
        super().__init__()
        self.table, self.weight = nn.Embedding(40, 2, **DOUBLE), nn.Parameter(torch.ones(1, 2, **DOUBLE))
        self.norm, self.frozen = nn.BatchNorm1d(2, **DOUBLE), nn.Parameter(torch.ones(2, **DOUBLE), False)
        self.register_buffer("count", torch.zeros(1, **DOUBLE))
        self.do = do

    def forward(self, ids, numbers):
        x = self.do(self, ids, numbers) + self.norm(numbers) + self.table(ids)
        return (x if self.do is sparsely else x * self.weight).sum(1)


def in_place(self, ids, numbers):
    self.weight.mul_(0.5)
    return numbers


def in_place_unseen(self, ids, numbers):
    with torch.no_grad():
        self.weight.mul_(0.5)
    return numbers


def in_place_of_data(self, ids, numbers):
    self.weight.data.mul_(0.5)
    return numbers


def in_place_frozen(self, ids, numbers):
    self.frozen.mul_(2)
    return numbers


def counting(self, ids, numbers):
    self.count.add_(1)
    return numbers


def replacing(self, ids, numbers):
    self.count = self.count + 1
    return numbers


def writing(self, ids, numbers):
    return numbers.mul_(2)


def twice(self, ids, numbers):
    return self.norm(numbers)


def tied(self, ids, numbers):
    return numbers @ self.table.weight[:2]


def sparsely(self, ids, numbers):
    return functional.embedding(ids % 1, self.weight, sparse=True)


def unrepeatable(self, ids, numbers):
    return numbers + torch.zeros(3, 1, 4, 4, **DOUBLE).put_(torch.zeros(2, dtype=torch.long), self.weight,
                                                            accumulate=False).sum()


@pytest.mark.parametrize("do, said", [
    (in_place, r"a parameter is changed in place in the forward pass, at test_refusals.py:\d+: self.weight.mul_"),
    (in_place_unseen, "parameter weight is changed in place in the forward pass: only the optimizer may"),
    (in_place_of_data, r"parameter weight is changed in place|has written to dense\['weight'\] in microbatch 0"),
    (in_place_frozen, "parameter frozen is changed in place"),
    (counting, "buffer count is changed in the forward pass: it would differ between ranks"),
    (replacing, "buffer count is changed in the forward pass"),
    (writing, "the forward pass writes to the tensors of its batch"),
    (twice, "batch norm norm is called 2 times in a forward pass"),
    (tied, r"table.weight is used outside of its layer .* TorchModel\(..., dense=\['table.weight'\]\)"),
    (sparsely, "the gradient of weight is sparse, and the variable is dense: say sparse=False"),
    (unrepeatable, "put_ does not have a deterministic implementation.* use another operation"),
], ids=lambda value: getattr(value, "__name__", ""))
def test_what_a_forward_pass_may_not_do(do, said):
    """As a user meets it: train says it."""
    with pytest.raises(CollectiveError, match=said):
        train(TorchModel(Strange(do), total, rows=lambda batch: {"table.weight": batch.inputs[0]}), data_of(2, 8),
              options=Options(steps=1), comm=MPI.COMM_SELF)


def test_a_module_as_it_should_be_passes():
    train(TorchModel(Strange(lambda self, ids, numbers: numbers), total), data_of(2, 8), options=Options(steps=1),
          comm=MPI.COMM_SELF)


@pytest.mark.parametrize("name", ["recommender", "tied"])
@pytest.mark.parametrize("divisor", [len, lambda target: target.numel()], ids=["examples", "elements"])
def test_a_loss_that_is_a_mean(name, divisor):
    made, loss = LOSSES[name]
    with pytest.raises(ValueError, match='the loss is a mean over the microbatch.*reduction="sum"'):
        computed(TorchModel(module_of(name), lambda module, batch: loss(module, batch) / divisor(batch.targets)),
                 batch_of())


def test_a_mean_that_cannot_be_told_twice_is_found_by_its_name():
    class Bags(nn.Module):
        def __init__(self, reduction):
            super().__init__()
            self.bag, self.loss = nn.EmbeddingBag(40, 1, mode="sum", **DOUBLE), nn.MSELoss(reduction=reduction)

        def forward(self, ids, offsets, targets):
            return self.loss(self.bag(ids, offsets)[:, 0], targets)

    batch = batch_of()
    batch.inputs, batch.targets = (np.arange(6), np.array([0, 2, 5])), np.zeros(3)

    def loss(module, batch):
        return module(*batch.inputs, batch.targets)

    with pytest.raises(ValueError, match="loss has reduction='mean': the loss is a mean"):
        computed(TorchModel(Bags("mean"), loss), batch)
    computed(TorchModel(Bags("sum"), loss), batch)


@pytest.mark.parametrize("returned, said", [
    (lambda module, batch: 1.0, "the loss is float: it must be the sum"),
    (lambda module, batch: module(batch.inputs), r"the loss is a tensor of shape \(11,\)"),
    (lambda module, batch: squared(module, batch).bfloat16(), "the loss is bfloat16, .*float"),
    (lambda module, batch: squared(module, batch).detach(), "the loss does not depend on any trained parameter"),
])
def test_losses_that_are_none(returned, said):
    with pytest.raises(ValueError, match=said):
        computed(TorchModel(module_of("recommender"), returned), batch_of())


def counted():
    calls = itertools.count(1)
    return lambda: next(calls)


@pytest.mark.parametrize("number", [np.random.default_rng(1).random, counted(),
                                    partial(torch.rand, (), generator=torch.Generator())],
                         ids=["numpy", "calls", "torch"])
def test_a_loss_that_is_another_one_when_it_is_computed_again(number):
    model = TorchModel(module_of("recommender"), lambda module, batch: squared(module, batch) * number())
    with pytest.raises(ValueError, match="changes when it is computed again.* a generator of its own, or count"):
        computed(model, batch_of())


def test_parameters_that_a_microbatch_does_not_use():
    module = module_of("recommender")
    module.extra = nn.Linear(2, 2, **DOUBLE)
    with pytest.raises(ValueError, match="extra.weight, extra.bias is not used in a microbatch"):
        computed(TorchModel(module, squared), batch_of())
    _, gradients = computed(TorchModel(module, squared, unused="zero"), batch_of())
    assert not gradients["extra.weight"].any() and gradients["extra.weight"].shape == (2, 2)


def test_a_microbatch_of_one_example_has_no_variance():
    with pytest.raises(ValueError, match="more than 1 value per channel.* a microbatch of one example .*drop_last"):
        computed(model_of("recommender"), batch_of(1))


def test_an_id_outside_of_its_table():
    batch = batch_of()
    batch.inputs[0][3] = 40
    with pytest.raises(ValueError, match="looks up row 40 of items.weight, which has rows 0 to 39: look at the data"):
        model_of("recommender").rows_needed(batch)


@pytest.mark.parametrize("said, words", [
    ({"items.weight": [1]}, r"rows returned \['items.weight'\]: .* the tables are items.weight, tags.weight"),
    ([1], "rows returned list"),
    ({"items.weight": [0.5], "tags.weight": []}, "rows returned float64 for items.weight"),
])
def test_declared_rows_that_are_none(said, words):
    with pytest.raises(ValueError, match=words):
        model_of("recommender", rows=lambda batch: said).rows_needed(batch_of())


@pytest.mark.parametrize("wrong", [40, -1, 10**9])
def test_an_undeclared_id_outside_of_its_table(wrong):
    batch = batch_of()
    declared = {"items.weight": batch.inputs[0].copy(), "tags.weight": batch.inputs[1].copy()}
    batch.inputs[0][3] = wrong
    with pytest.raises(ValueError, match=f"looks up row {wrong} of items.weight, which was neither recorded"):
        computed(model_of("recommender", rows=lambda batch: declared), batch)


@pytest.mark.parametrize("shift", [0, 1])
def test_tables_with_the_same_look_ups_share_their_row_numbers(shift):
    class Factors(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights, self.factors = nn.Embedding(41, 1, **DOUBLE), nn.Embedding(41, 3, **DOUBLE)

        def forward(self, ids, numbers):
            return (self.weights(ids) + self.factors(ids + shift)).sum(1)

    needed = TorchModel(Factors(), total).rows_needed(batch_of())
    assert (needed["weights.weight"] is needed["factors.weight"]) == (shift == 0)
    assert np.array_equal(needed["weights.weight"] + shift, needed["factors.weight"])


def test_look_ups_that_other_rows_decide():
    """The rows are not there when look-ups are recorded: a dense variable has them all."""
    class Nearest(nn.Module):
        def __init__(self):
            super().__init__()
            self.codes, self.words = nn.Embedding(40, 2, **DOUBLE), nn.Embedding(40, 2, **DOUBLE)

        def forward(self, ids, numbers):
            near = (self.codes(ids).sum(1) * 10).long().remainder(40)
            return (self.words(near) + self.codes(ids)).sum(1)

    with pytest.raises(ValueError, match=r"words.weight, .* TorchModel\(..., dense=\['words.weight'\]\)"):
        computed(TorchModel(Nearest(), total), batch_of())
    computed(TorchModel(Nearest(), total, dense=["words.weight"]), batch_of())


@pytest.mark.parametrize("name", ["Net", "made", "net"])
def test_a_bare_module_as_the_command_lines_model(name, tmp_path, monkeypatch, capsys):
    (tmp_path / "bare_net.py").write_text("""from torch import nn
class Net(nn.Module):
    def __init__(self, width):
        super().__init__()
def made():
    return Net(1)
net = Net(1)
""")
    monkeypatch.syspath_prepend(tmp_path)
    assert main(["train", "--model", f"bare_net:{name}", "--data", "digits", "--no-output"]) == 1
    said = capsys.readouterr().err
    assert f"bare_net:{name} gives a torch.nn.Module" in said and "from refimpl.torch import TorchModel" in said
    assert "def model(): return TorchModel(Net(...), loss)\nand say --model bare_net:model" in said
