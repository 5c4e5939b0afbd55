"""One microbatch against PyTorch alone: the same loss and the same gradients, to the bit, for every layer."""

import copy

import numpy as np
import pytest
import torch
from framework_toys import computed, moved, values_of
from toy_modules import LOSSES, batch_of, module_of
from torch import nn

from kernels import RowGradient
from refimpl.torch import TorchModel
from refimpl.torch.record import shapes_of_recurrent
from refimpl.torch.tensors import on_device, tensors_in


def alone(module, loss, batch):
    """Return (loss, name -> gradient, names of running statistics -> their values) as PyTorch's own loop has them."""
    module = copy.deepcopy(module)
    for layer in module.modules():
        if isinstance(layer, nn.BatchNorm1d):
            layer.momentum = 1.0  # what remains is the batch's own
    torch.manual_seed(batch.key)
    total = loss(module, on_device(batch, torch.device("cpu"))) / batch.normaliser
    total.backward()
    return total.item(), {name: p.grad.numpy() for name, p in module.named_parameters()}, dict(module.named_buffers())


def check(module, loss, batch, **options):
    """Hold a microbatch of the model to PyTorch's own; return its gradients."""
    model = TorchModel(module, loss, **options)
    found, gradients = computed(model, batch)
    wanted, theirs, buffers = alone(module, loss, batch)
    assert found == wanted
    assert {v.name for v in model.variables} == set(gradients)
    for v in model.variables:
        gradient = gradients[v.name]
        if v.statistic:
            share = len(batch.targets) / batch.normaliser
            assert np.array_equal(gradient, buffers[v.name].numpy() * share)
        elif v.sparse:
            assert isinstance(gradient, RowGradient) and np.array_equal(gradient.rows, theirs[v.name][gradient.ids])
            assert not np.delete(theirs[v.name], gradient.ids, axis=0).any()
        else:
            assert np.array_equal(gradient, theirs[v.name])
    return gradients


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", LOSSES)
def test_every_gradient_is_pytorchs_own(name, dtype):
    batch = batch_of(normaliser=13.0)
    batch.inputs = (*batch.inputs[:2], batch.inputs[2].astype(str(dtype)[6:]))
    batch.targets = batch.targets.astype(str(dtype)[6:])
    gradients = check(module_of(name, dtype), LOSSES[name][1], batch)
    if name == "recommender":
        assert 0 not in gradients["items.weight"].ids and 0 not in gradients["tags.weight"].ids  # padding
        assert 0 in batch.inputs[0] and 0 in batch.inputs[1]


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_bags_of_every_mode(mode):
    check(module_of("recommender", mode=mode), LOSSES["recommender"][1], batch_of())


class Flat(nn.Module):
    """Bags that begin at offsets, weighted or not; some are empty, and one table is not looked up at all."""

    def __init__(self, last, weighted):
        super().__init__()
        self.bag = nn.EmbeddingBag(20, 3, mode="sum", include_last_offset=last, dtype=torch.float64)
        self.other = nn.Embedding(6, 3, dtype=torch.float64)
        self.weighted = weighted

    def forward(self, ids, offsets, weights):
        bags = self.bag(input=ids, offsets=offsets.int(), per_sample_weights=weights if self.weighted else None)
        return bags.square().sum() + self.other(input=ids[:0]).sum()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("last", [False, True])
def test_bags_by_offset(last, weighted):
    random = np.random.default_rng(2)
    offsets = np.array([0, 2, 2, 7, 12])
    batch = batch_of(normaliser=4.0)
    batch.inputs, batch.targets = (random.integers(0, 20, 12), offsets, random.standard_normal(12)), np.zeros(4)
    gradients = check(Flat(last, weighted), lambda module, batch: module(*batch.inputs), batch)
    assert len(gradients["other.weight"]) == 0


def test_a_table_can_be_dense():
    gradients = check(module_of("recommender"), LOSSES["recommender"][1], batch_of(), dense=["items.weight"])
    assert gradients["items.weight"].shape == (40, 4) and isinstance(gradients["tags.weight"], RowGradient)


def test_rows_can_be_declared_and_more_than_are_looked_up():
    module, loss = module_of("recommender"), LOSSES["recommender"][1]
    batch = batch_of()
    asked = []

    def rows(batch):
        asked.append(batch)
        return {"items.weight": [*batch.inputs[0], 39, 38], "tags.weight": torch.from_numpy(batch.inputs[1])}

    gradients = check(module, loss, batch, rows=rows)
    assert len(asked) == 1
    recorded = check(module, loss, batch)
    for name in recorded:
        if isinstance(recorded[name], RowGradient):
            assert np.array_equal(gradients[name].ids, recorded[name].ids)


@pytest.mark.parametrize("name", LOSSES)
def test_bits_do_not_depend_on_where_values_and_batches_lie(name):
    """In an arena an array begins anywhere; MKL's products of such are others."""
    found = []
    for by in (0, 1):
        model, batch = TorchModel(module_of(name), LOSSES[name][1]), batch_of()
        dense, rows = values_of(model, model.rows_needed(batch))
        batch.inputs = (*batch.inputs[:2], moved(batch.inputs[2], by))
        found.append(model.loss_and_gradients({n: moved(value, by) for n, value in dense.items()},
                                              {n: moved(value, by) for n, value in rows.items()}, batch))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1].values(), found[1][1].values()):
        assert np.array_equal(*((g.rows if isinstance(g, RowGradient) else g) for g in (one, other)))


class Sampling(nn.Module):
    """Scores candidates that it draws: from PyTorch's numbers, before dropout or after."""

    def __init__(self, late):
        super().__init__()
        self.words, self.dropout = nn.Embedding(50, 3, dtype=torch.float64), nn.Dropout(0.5)
        self.late = late

    def forward(self, ids):
        early = torch.randint(0, 50, (6,))
        x = self.dropout(self.words(ids))
        drawn = torch.randint(0, 50, (6,)) if self.late else early
        return (x @ self.words(drawn).T).sum(1)


@pytest.mark.parametrize("late", [False, True])
def test_look_ups_that_are_drawn_are_recorded_as_they_will_be(late):
    model = TorchModel(Sampling(late), lambda module, batch: module(batch.inputs[0]).sum())
    for key in range(3):
        computed(model, batch_of(key=key))
    assert model.recorder.count == 2 and (not late or model.recorder.device.type == "cpu")
    check(Sampling(late), lambda module, batch: module(batch.inputs[0]).sum(), batch_of())


def test_look_ups_may_be_fewer_than_in_the_first_batch_and_not_more():
    class Varied(nn.Module):
        def __init__(self):
            super().__init__()
            self.words = nn.Embedding(50, 3, dtype=torch.float64)

        def forward(self, ids, times):
            total = sum(self.words((ids + n) % 50).sum() for n in range(times))
            return total if total.item() < 1e9 else 0 * total  # a number, which shapes do not have

    def batch(times):
        found = batch_of(key=times)
        found.inputs = (found.inputs[0], times)
        return found

    def loss(module, batch):
        return module(*batch.inputs)

    model = TorchModel(Varied(), loss)
    for times in (3, 2, 3, 1):
        computed(model, batch(times))
    assert model.recorder.count == 3
    with pytest.raises(ValueError, match="looks up row .* of words.weight, which was neither recorded nor declared"):
        computed(model, batch(5))


def test_a_module_is_never_changed():
    """Values, buffers, modes, forward methods, PyTorch's random numbers and its settings are what they were."""
    module = module_of("recommender")
    before = {key: value.clone() for key, value in module.state_dict().items()}
    torch.manual_seed(1)
    numbers, seen = torch.get_rng_state(), []

    def loss(module, batch):
        seen.append((torch.get_num_threads(), torch.are_deterministic_algorithms_enabled()))
        return LOSSES["recommender"][1](module, batch)

    torch.set_num_threads(2)
    try:
        computed(TorchModel(module, loss), batch_of())
        assert torch.get_num_threads() == 2 and set(seen) == {(1, True)}
    finally:
        torch.set_num_threads(1)
    assert all(torch.equal(value, before[key]) for key, value in module.state_dict().items())
    assert all(part.training and "forward" not in vars(part) for part in module.modules())
    assert torch.equal(numbers, torch.get_rng_state())
    assert not torch.are_deterministic_algorithms_enabled() and module.norm.momentum == 0.1


def test_dropout_is_a_function_of_the_key():
    model = TorchModel(module_of("recommender"), LOSSES["recommender"][1])
    losses = [computed(model, batch_of(key=key))[0] for key in (1, 2, 1)]
    assert losses[0] == losses[2] != losses[1]


def test_gradients_leave_as_they_come():
    """Statistics first: what shares a bucket with them need not wait for the end."""
    model, told = TorchModel(module_of("recommender"), LOSSES["recommender"][1]), []
    batch = batch_of()
    batch.ready = told.append
    _, gradients = computed(model, batch)
    names = [name for some in told for name in some]
    assert names[:2] == ["norm.running_mean", "norm.running_var"]
    assert names[2].startswith("out.") and names[-1].startswith("norm.")
    assert all(array is gradients[name] for some in told for name, array in some.items())


@pytest.mark.parametrize("shape", [(5, 3, 4), (5, 4)], ids=["batched", "alone"])
def test_recurrent_layers_have_the_shapes_that_are_said(shape):
    for kind, options in ((nn.LSTM, {"proj_size": 2}), (nn.LSTM, {"bidirectional": True}), (nn.GRU, {}), (nn.RNN, {})):
        for first in (False, True):
            layer = kind(4, 6, 2, batch_first=first, **options)
            found, wanted = shapes_of_recurrent(layer, torch.empty(shape, device="meta")), layer(torch.zeros(shape))
            flat = [[part.shape for part in tensors_in(tree)] for tree in (found, wanted)]
            assert flat[0] == flat[1] and found[0].is_meta


def test_a_layer_with_a_forward_of_its_own_keeps_it():
    """While look-ups are recorded, only PyTorch's own forward of a slow layer is left out."""
    module, called = nn.Sequential(nn.Embedding(4, 2), nn.Dropout(0.5), nn.Dropout(0.5)), []
    own = module[1].forward = lambda input: called.append(input.device.type) or input
    model = TorchModel(module, lambda module, batch: module(batch.inputs).sum())
    assert list(model.recorder.shapes) == [module[2]]
    computed(model, batch_of(inputs=np.array([1, 3])))
    assert module[1].forward is own and "meta" in called
