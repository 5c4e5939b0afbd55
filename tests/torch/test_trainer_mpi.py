"""A loop of one's own has one answer, to the bit, on any number of ranks; all ranks stop with one message."""

import pytest
import torch
from mpi4py import MPI
from toy_modules import Items, module_of, squared
from torch.utils.data import DataLoader

from refimpl import Options
from refimpl.torch import Trainer
from refimpl.transport import CollectiveError

pytestmark = [pytest.mark.mpi, pytest.mark.ranks(1, 3)]
TABLES = {"sgd": torch.optim.SGD, "adagrad": torch.optim.Adagrad, "sparse-adam": torch.optim.SparseAdam,
          "encoded": torch.optim.SGD}
ENCODED = {"codec": {"dense": "topk:0.1"}}
WAYS = [("sgd", {"partitions": 5, "overlap": True}), ("adagrad", {"hot_rows": 7}), ("sparse-adam", {}),
        ("adagrad", {"architecture": "allreduce"}), ("sgd", {"architecture": "allreduce", "sparse_as_dense": True}),
        ("encoded", ENCODED)]


def answer(kind, comm, steps=5, **settings):
    """Train over an epoch and into the next, in float32: AdamW by groups, a scheduler, clipping; return all bits."""
    module = module_of("recommender", torch.float32)
    tables = [module.items.weight, module.tags.weight]
    dense = [p for p in module.parameters() if all(p is not table for table in tables)]
    adamw = torch.optim.AdamW([{"params": dense[:3]}, {"params": dense[3:], "weight_decay": 0.0}], lr=0.02)
    by_row = TABLES[kind](tables, lr=0.05)
    schedulers = [torch.optim.lr_scheduler.ExponentialLR(each, 0.9) for each in (adamw, by_row)]
    trainer = Trainer(module, squared, optimizer=[adamw, by_row], comm=comm, options=Options(**settings))
    loader, found = DataLoader(Items(dtype=torch.float32), 16, shuffle=True), []
    while len(found) < steps:
        for batch in trainer.shard(loader):
            loss = trainer.loss(batch)
            trainer.backward(loss)
            found.append((loss.item(), trainer.clip_grad_norm_(0.5).item()))
            trainer.step()
            for scheduler in schedulers:
                scheduler.step()
    found.append(trainer.evaluate(loader))
    state = trainer.state_dict()
    own = {f"{key} {slot}": value for key, slots in state["optimizers"][0]["state"].items()
           for slot, value in slots.items()}
    module = {key: value for key, value in trainer.gather().state_dict().items() if "num_batches" not in key}
    return found, {key: value.numpy().tobytes() for key, value in (state["values"] | own | module).items()}


@pytest.fixture(scope="module")
def one_rank(shared):
    """kind -> the answer of one rank."""
    return shared(TABLES, lambda kind: answer(kind, MPI.COMM_SELF, **ENCODED if kind == "encoded" else {}))


@pytest.mark.parametrize("kind, way", WAYS)
def test_any_number_of_ranks_gives_the_answer_of_one(comm, one_rank, kind, way):
    found, bits = answer(kind, comm, **way)
    assert found == one_rank[kind][0]
    assert [key for key, value in bits.items() if value != one_rank[kind][1][key]] == []


def test_other_numbers_are_found(comm, one_rank):
    assert answer("sgd", comm)[1] != one_rank["adagrad"][1]


@pytest.mark.ranks(1, 2, 3)
def test_a_rank_changes_only_its_own_gradients(comm):
    """Ranks of one machine share the memory in which a long vector is summed; a loop may clip and change ``.grad``."""
    def steps(comm):
        torch.manual_seed(1)
        module, inputs = torch.nn.Linear(100, 90), torch.randn(32, 100)  # 36 KB of gradients
        trainer = Trainer(module, lambda module, batch: module(batch.inputs).square().sum(), comm=comm,
                          optimizer=torch.optim.SGD(module.parameters(), lr=0.1))
        for batch in trainer.shard(DataLoader(inputs, 16)):
            trainer.backward(trainer.loss(batch))
            trainer.clip_grad_norm_(0.5)
            module.weight.grad.mul_(0.5)
            trainer.step()
        return trainer.gather().weight.detach()

    assert torch.equal(steps(comm), steps(MPI.COMM_SELF))


def test_two_modules_that_train_each_other_have_a_trainer_each(comm):
    """A generator and a critic in turns. Both losses draw numbers for each example, which their sums must not hide."""
    def turns(comm):
        torch.manual_seed(1)
        maker, critic = torch.nn.Linear(4, 6), torch.nn.Linear(6, 1)

        def told_apart(critic, batch):
            made = maker(torch.randn(len(batch.inputs), 4)).detach()
            return torch.nn.functional.softplus(critic(made) - critic(batch.inputs)).sum()

        def passed(maker, batch):
            return torch.nn.functional.softplus(-critic(maker(torch.randn(len(batch.inputs), 4)))).sum()

        loader, pairs = DataLoader(torch.randn(48, 6), 16), [(critic, told_apart), (maker, passed)]
        trainers = [Trainer(module, loss, optimizer=torch.optim.Adam(module.parameters()), comm=comm)
                    for module, loss in pairs]
        for batches in zip(*(trainer.shard(loader) for trainer in trainers)):
            for trainer, batch in zip(trainers, batches):
                trainer.backward(trainer.loss(batch))
                trainer.step()
        return [value for trainer in trainers for value in trainer.gather().state_dict().values()]

    assert all(map(torch.equal, turns(comm), turns(MPI.COMM_SELF)))


def test_ranks_that_disagree_are_told(comm):
    if comm.size == 1:
        pytest.skip("one rank agrees with itself")
    module = module_of("tied")
    optimizer = torch.optim.SGD(module.parameters(), lr=0.1 + 0.1 * (comm.rank == 1))
    with pytest.raises(CollectiveError, match="the ranks disagree: optimizers is"):
        Trainer(module, squared, optimizer=optimizer, comm=comm).shard(DataLoader(Items(), 16))


def test_what_one_rank_may_not_do_stops_all(comm):
    module = module_of("recommender")
    trainer = Trainer(module, squared, optimizer=torch.optim.SGD(module.parameters(), 0.1), comm=comm)
    with pytest.raises(CollectiveError, match="call trainer.backward|backward takes what"):
        for batch in trainer.shard(DataLoader(Items(), 16)):
            loss = trainer.loss(batch)
            if comm.rank == comm.size - 1:
                trainer.step()
            trainer.backward(loss)
            trainer.step()
