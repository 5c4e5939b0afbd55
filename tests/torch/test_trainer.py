"""A loop of one's own: the bits of PyTorch's loop where there is one microbatch, else its numbers; refusals by name."""

import copy
from functools import partial

import pytest
import torch
from mpi4py import MPI
from plain_loop import STEPS, plain_losses
from test_optimizers import TABLES, Scheduled, grouped
from test_own_parameters import Network
from toy_modules import Items, Recommender, module_of, squared
from torch import nn
from torch.utils.data import DataLoader

from refimpl import Options
from refimpl.torch import TorchData, TorchModel, Trainer
from refimpl.training.run.whole import hashes
from refimpl.training.session import train
from refimpl.transport import CollectiveError

ADAM, SGD = torch.optim.Adam, torch.optim.SGD


def network(sparse=False):
    torch.manual_seed(7)
    module = Network()
    module.items.sparse = module.tags.sparse = sparse
    return module


def trainer_of(module, optimizer, loss=squared, microbatches=4, **more):
    return Trainer(module, loss, optimizer=optimizer, microbatches=microbatches, comm=MPI.COMM_SELF, **more)


def loader(batch=16, **more):
    return DataLoader(Items(), batch, shuffle=True, **more)


def loop(trainer, steps=STEPS, each=lambda: None, clip=None, data=None):
    """Do so many steps, over epochs; return their losses."""
    found, data = [], data or loader()
    while True:
        for batch in trainer.shard(data):
            loss = trainer.loss(batch)
            trainer.backward(loss)
            if clip:
                trainer.clip_grad_norm_(clip)
            trainer.step()
            each()
            found.append(loss.item())
            if len(found) == steps:
                return found


class Clipped:
    """Scales the gradients in a plain loop; PyTorch's own clipping takes no sparse ones."""

    def __init__(self, module, norm):
        self.module, self.norm = module, norm

    def step(self):
        parameters = [*self.module.parameters()]
        for p in parameters:
            p.grad = p.grad.coalesce() if p.grad.is_sparse else p.grad
        norms = [(p.grad.values() if p.grad.is_sparse else p.grad).norm() for p in parameters]
        for p in parameters:
            p.grad.mul_(min(1.0, self.norm / (torch.stack(norms).norm().item() + 1e-6)))


DENSE = {"adamw": partial(torch.optim.AdamW, lr=0.05), "nadam": partial(torch.optim.NAdam, lr=0.05),
         "nesterov": partial(torch.optim.SGD, lr=0.05, momentum=0.9, nesterov=True),
         "rmsprop": partial(torch.optim.RMSprop, lr=0.01, centered=True), "radam": partial(torch.optim.RAdam, lr=0.05)}


@pytest.mark.parametrize("name", DENSE)
def test_one_microbatch_gives_the_bits_of_pytorchs_loop(name):
    """With groups and a scheduler, all parameters dense."""
    def cosine(optimizer):
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, STEPS)

    ours, theirs = network(), network()
    optimizer = DENSE[name](grouped(ours))
    found = loop(trainer_of(ours, optimizer, microbatches=1, dense=TABLES), each=cosine(optimizer).step)
    wanted = plain_losses(theirs, squared, TorchData(loader(), 1),
                          lambda module: [Scheduled(DENSE[name](grouped(module)), cosine)])
    assert found == wanted
    for key, value in theirs.state_dict().items():
        assert torch.equal(ours.state_dict()[key], value), key


def test_autocast_and_compile_give_the_bits_of_pytorchs_loop():
    """With dense tables. A GradScaler would scale the loss, which backward refuses; bfloat16 needs none."""
    def loss(module, batch):
        with torch.autocast("cpu", torch.bfloat16):
            return (module(batch.inputs).float() - batch.targets).square().sum()

    ours, theirs, data = network().float(), network().float(), DataLoader(Items(dtype=torch.float32), 16, shuffle=True)
    compiled, tables = torch.compile(ours, backend="eager"), [f"_orig_mod.{name}" for name in TABLES]
    found = loop(trainer_of(compiled, ADAM(ours.parameters()), loss, 1, dense=tables), data=data)
    assert found == plain_losses(theirs, loss, TorchData(data, 1), lambda module: [ADAM(module.parameters())])
    assert all(map(torch.equal, ours.state_dict().values(), theirs.state_dict().values()))


BY_ROW = {"sgd": partial(torch.optim.SGD, lr=0.05), "sparse-adam": partial(torch.optim.SparseAdam, lr=0.05, eps=0.01),
          "adagrad": partial(torch.optim.Adagrad, lr=0.05, lr_decay=0.1, initial_accumulator_value=0.5)}


@pytest.mark.parametrize("name", BY_ROW)
def test_rows_move_as_pytorchs_optimizers_of_sparse_gradients_move_them(name):
    """The dense parameters beside them by AdamW, clipped by the norm of all; four microbatches: other roundings."""
    def made(sparse):
        module = network(sparse)
        named = dict(module.named_parameters())
        dense = torch.optim.AdamW([p for name, p in named.items() if name not in TABLES], lr=0.01)
        return module, [dense, BY_ROW[name]([named[name] for name in TABLES])]

    (ours, optimizers), (theirs, others) = made(True), made(name == "sparse-adam")
    trainer = trainer_of(ours, optimizers)
    found = loop(trainer, clip=0.3)
    wanted = plain_losses(theirs, squared, TorchData(loader(), 4), lambda module: [Clipped(module, 0.3), *others])
    assert found == pytest.approx(wanted, rel=1e-11) and min(found) < max(found)
    trainer.gather()
    for key, value in theirs.state_dict().items():
        assert torch.allclose(ours.state_dict()[key], value, rtol=1e-9, atol=1e-12), key


@pytest.mark.parametrize("optimizer, clip", [("adam", 0.5), ("momentum", None)])
def test_our_own_optimizers_give_the_bits_of_train(optimizer, clip):
    """With batch norm, dropout, and a rate that falls."""
    options = Options(optimizer=optimizer, learning_rate=0.05, steps=STEPS, clip_norm=clip, weight_decay=0.01,
                      rate="cosine")
    trainer = trainer_of(module_of("recommender"), None, options=options)
    found, losses = loop(trainer), []
    result = train(TorchModel(module_of("recommender"), squared), TorchData(loader(), 4), options=options,
                   comm=MPI.COMM_SELF, progress=lambda record: losses.append(record["loss"]))
    assert found == losses
    assert hashes(trainer.base.parameters) == {"parameters_sha256": result.parameters_sha256,
                                               "state_sha256": result.state_sha256}


def made(dtype=torch.float64):
    module = module_of("recommender", dtype)
    dense = [p for name, p in module.named_parameters() if name not in TABLES]
    tables = [module.items.weight, module.tags.weight]
    return module, [torch.optim.AdamW(dense, lr=0.05), torch.optim.SparseAdam(tables)]


@pytest.mark.parametrize("codec", ["none", "onebit", "powersgd:2"])
def test_going_on_from_a_state_dict(codec, tmp_path):
    """Kept in a file, loaded into another training: it ends as one that was not interrupted."""
    module, optimizers = made(torch.float32)
    options = Options(codec={} if codec == "none" else {"dense": codec})
    data = DataLoader(Items(dtype=torch.float32), 16, shuffle=True)
    trainer = trainer_of(module, optimizers, options=options)
    loop(trainer, 3, data=data)  # an epoch
    assert trainer.is_main_process
    torch.save(trainer.state_dict(), tmp_path / "state.pt")
    loop(trainer, 3, data=data)
    other, its = made(torch.float32)
    again = trainer_of(other, its, options=options)
    again.load_state_dict(torch.load(tmp_path / "state.pt"))
    loop(again, 3, data=data)
    ours, theirs = trainer.state_dict(), again.state_dict()
    assert ours["values"].keys() == theirs["values"].keys() and ours["updates"] == theirs["updates"] == 6
    assert all(torch.equal(value, theirs["values"][key]) for key, value in ours["values"].items())
    for key, value in trainer.gather().state_dict().items():
        assert key.endswith("num_batches_tracked") or torch.equal(value, again.gather().state_dict()[key]), key


def test_early_stopping_and_the_best_are_the_users():
    """The best values come back; a copy of the module is the user's, and what is evaluated is the training's."""
    module, optimizers = made()
    trainer, data, best = trainer_of(module, optimizers), loader(), None
    while True:
        for batch in trainer.shard(data):
            trainer.backward(trainer.loss(batch))
            trainer.step()
        judged = trainer.evaluate(loader())
        if best and judged["loss"] > best[0]:
            break
        best = judged["loss"], trainer.state_dict(), copy.deepcopy(trainer.gather())
    trainer.load_state_dict(best[1])
    assert trainer.evaluate(loader())["loss"] == best[0]
    copied = best[2].eval()
    with torch.no_grad():
        items = [Items()[n] for n in range(46)]
        inputs = tuple(torch.stack(part) for part in zip(*[item[0] for item in items]))
        mean = (copied(inputs) - torch.stack([item[1] for item in items])).square().mean()
    assert mean.item() == pytest.approx(best[0], rel=1e-12)


def test_a_batch_may_be_left_out_and_a_gradient_changed():
    """The gradients that the optimizer sees are those of .grad; those of a loss without backward are dropped."""
    module = network()
    trainer = trainer_of(module, torch.optim.SGD(module.parameters(), lr=1.0), dense=TABLES)
    before = {key: value.clone() for key, value in module.state_dict().items()}
    for batch in trainer.shard(loader()):
        trainer.loss(batch)
    trainer.backward(trainer.loss(batch))
    for parameter in module.parameters():
        parameter.grad.fill_(0.25)
    trainer.step()
    for key, value in module.state_dict().items():
        assert torch.equal(value, before[key] - 0.25), key


class Unlike(torch.optim.Optimizer):
    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure):
        closure()


REFUSED = [
    (lambda m: "adam", {}, "the optimizer is 'adam': give one of torch.optim"),
    (lambda m: ADAM, {}, "give one of torch.optim, made of module.parameters()"),
    (lambda m: torch.optim.LBFGS(m.parameters()), {}, "LBFGS computes the loss again within a step.*AdamW"),
    (lambda m: Unlike(m.parameters()), {}, "Unlike computes the loss again"),
    (lambda m: SGD(nn.Linear(2, 3).parameters(), 0.1), {}, r"SGD has a parameter of shape \(3, 2\) that the module"),
    (lambda m: [SGD(m.parameters(), 0.1), ADAM(m.out.parameters())], {}, "out.weight is in two optimizers"),
    (lambda m: ADAM(m.parameters()), {}, r"items.weight is a table, and Adam changes all .*SparseAdam.*dense=\['items"),
    (lambda m: SGD(m.parameters(), 0.1, momentum=0.9), {}, "items.weight is a table, and SGD with momentum=0.9 changes"),
    (lambda m: SGD(m.parameters(), 0.1), {"options": Options(clip_norm=1.0, weight_decay=0.1)},
     "options say weight_decay, clip_norm, and so does SGD"),
]


@pytest.mark.parametrize("optimizer, more, said", REFUSED)
def test_what_is_refused_before_the_first_step(optimizer, more, said):
    module = Recommender()
    with pytest.raises(ValueError, match=said):
        trainer_of(module, optimizer(module), **more)


def stepped(trainer, optimizer, batch):
    trainer.backward(trainer.loss(batch))
    optimizer.step()
    trainer.step()


def twice(trainer, optimizer, batch):
    trainer.backward(trainer.loss(batch))
    trainer.loss(batch)


IN_THE_LOOP = [
    (lambda t, o, b: t.step(), r"step\(\) has no gradients: call trainer.backward"),
    (lambda t, o, b: t.backward(2 * t.loss(b)), "backward takes what trainer.loss.* into the loss function"),
    (lambda t, o, b: t.loss(Items()[0]), r"the batch is tuple: give what trainer.shard\(loader\) yields"),
    (twice, r"loss\(batch\) comes before step\(\) .* a larger batch and more microbatches"),
    (stepped, r"is used between steps \(grad\).* take trainer.step\(\) in place of optimizer.step\(\)"),
    (lambda t, o, b: t.clip_grad_norm_(1.0), "clip_grad_norm_ comes between backward"),
    (lambda t, o, b: t.load_state_dict(nn.Linear(2, 2).state_dict()), "this is no state_dict of a Trainer"),
    (lambda t, o, b: t.evaluate(TorchData(Items(), 2, 8)), r"2 microbatches: say Trainer\(..., microbatches=2"),
    (lambda t, o, b: t.load_state_dict(t.state_dict() | {"optimizers": []}), "the state belongs to other optimizers of"),
    (lambda t, o, b: t.shard(loader(15)), "the loader's batch_size=15 is not that of 4 microbatches"),
]


@pytest.mark.parametrize("do, said", IN_THE_LOOP)
def test_what_is_refused_in_the_loop(do, said):
    module = Recommender()
    optimizer = SGD(module.parameters(), 0.1)
    trainer = trainer_of(module, optimizer)
    with pytest.raises((CollectiveError, ValueError), match=said):
        do(trainer, optimizer, next(trainer.shard(loader())))


def test_what_comes_between_backward_and_step_drops_no_gradient():
    """evaluate, state_dict and gather; and a second clipping, which finds the norm of the first."""
    def learned(between):
        torch.manual_seed(1)
        module = Recommender()
        trainer = trainer_of(module, SGD(module.parameters(), 0.1))
        for batch in trainer.shard(loader()):
            trainer.backward(trainer.loss(batch))
            assert trainer.clip_grad_norm_(0.01) > 0.01
            between(trainer)
            trainer.step()
        return {name: value.clone() for name, value in trainer.gather().state_dict().items()}

    def clip(trainer):
        assert trainer.clip_grad_norm_(0.01) == pytest.approx(0.01, rel=1e-4)

    wanted = learned(lambda trainer: None)
    for between in (lambda t: t.evaluate(loader()), lambda t: t.state_dict(), lambda t: t.gather()):
        found = learned(between)
        assert all(torch.equal(value, found[name]) for name, value in wanted.items())
    found = learned(clip)
    assert all(torch.allclose(value, found[name], rtol=1e-4) for name, value in wanted.items())


def called(module):
    module(tuple(part[None].expand(2, *part.shape) for part in Items()[3][0]))


OF_TABLES = {"embedding": called, "detach": lambda m: m.state_dict(), "norm": lambda m: m.items.weight.norm(),
             "fill_": lambda m: m.items.weight.fill_(0), "data": copy.deepcopy}


@pytest.mark.parametrize("use", OF_TABLES)
def test_a_table_is_not_used_between_steps_unseen(use):
    """Each rank has only some of its rows, even the gradients that PyTorch would clip. After gather it has all."""
    module = Recommender()
    optimizer = SGD(module.parameters(), 0.1)
    trainer = trainer_of(module, optimizer)
    batch = next(trainer.shard(loader()))
    trainer.backward(trainer.loss(batch))
    with pytest.raises(ValueError, match=r"items.weight is used between steps \(grad\).* trainer.clip_grad_norm_"):
        nn.utils.clip_grad_norm_(module.parameters(), 1.0)
    trainer.step()
    optimizer.zero_grad()
    with torch.no_grad(), pytest.raises(ValueError, match=rf"is used between steps \({use}\).*call trainer.gather\(\)"):
        OF_TABLES[use](module)
    with torch.no_grad():
        OF_TABLES[use](trainer.gather())


CHANGES = {"out.weight": lambda m: m.out.weight.data.clamp_(-1e-3, 1e-3), "norm.running_mean": called,
           "items.weight": lambda m: m.items.weight.detach().clamp_(-1e-3, 1e-3)}


@pytest.mark.parametrize("name", CHANGES)
def test_values_that_a_user_changes_between_steps_are_not_lost_unseen(name):
    """Also where PyTorch does not count the write."""
    module = Recommender()
    trainer = trainer_of(module, SGD(module.parameters(), 0.1))
    batch = next(trainer.shard(loader()))
    trainer.backward(trainer.loss(batch))
    trainer.step()
    CHANGES[name](trainer.gather())
    with pytest.raises(CollectiveError, match=f"{name} was changed outside of the training"):
        trainer.loss(batch)


def test_nothing_is_open_before_the_first_epoch():
    module = Recommender()
    with pytest.raises(ValueError, match=r"call trainer.shard\(loader\) first"):
        trainer_of(module, SGD(module.parameters(), 0.1)).evaluate(loader())
