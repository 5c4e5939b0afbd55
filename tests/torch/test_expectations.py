"""What people expect, row by row of the table in docs/torch.md: each is tried as it is written there.

The table is the list of what is tested: a row without a trial fails, and so does a word of a row that its trial does
not use. That numbers are PyTorch's is tested in test_optimizers.py, test_reported.py and test_trainer.py.
"""

import inspect
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from mpi4py import MPI
from toy_modules import Items, module_of, squared
from torch.optim.lr_scheduler import StepLR
from torch.utils.data import DataLoader, WeightedRandomSampler

from refimpl import Options, train
from refimpl.torch import TorchData, TorchModel, Trainer
from refimpl.training.run.directory import read_metrics
from refimpl.training.run.manifest import steps_saved

PAGE = Path(__file__).parents[2] / "docs/torch.md"
TABLES = ["items.weight", "tags.weight"]


def table() -> dict[str, tuple[str, str]]:
    """Return expectation -> (with train, with Trainer) of the page's table."""
    text = PAGE.read_text(encoding="utf-8").partition("## What people expect")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]
    return {name: cells for name, *cells in rows[2:]}


def loader(**more):
    return DataLoader(Items(), 16, **{"shuffle": True, **more})


def trained(data=None, heldout=None, loss=squared, module=None, session=(), model=(), **options):
    """Train a module for some steps; return (it, the lines of metrics, the result)."""
    module, lines = module or module_of("recommender"), []
    session = {"progress": lines.append, **dict(session)}
    result = train(TorchModel(module, loss, **dict(model)), data or TorchData(loader(), 8), heldout, comm=MPI.COMM_SELF,
                   options=Options(**{"steps": 4, "learning_rate": 0.01, **options}), **session)
    return module, lines, result


def looped(steps=3, each=lambda trainer, loss: None, optimizer=None, **more):
    """Do steps of a loop of one's own; return (the trainer, losses)."""
    module = module_of("recommender")
    optimizer, losses = optimizer and optimizer(module), []
    trainer = Trainer(module, squared, optimizer=optimizer, comm=MPI.COMM_SELF, **more)
    for _, batch in zip(range(steps), trainer.shard(loader())):
        losses.append(trainer.loss(batch))
        trainer.backward(losses[-1])
        each(trainer, losses[-1])
        trainer.step()
    return trainer, [loss.item() for loss in losses]


def apart(module, make):
    """Return PyTorch's optimizer of the dense parameters, and SGD for the tables."""
    named = dict(module.named_parameters())
    return [make([p for name, p in named.items() if name not in TABLES]),
            torch.optim.SGD([named[name] for name in TABLES], lr=0.01)]


def optimizers(tmp_path):
    losses = {}
    for name in ("sgd", "momentum", "nesterov", "adagrad", "adam", "adamw", "lars", "lamb"):
        losses[name] = trained(optimizer=name)[1][-1]["loss"]
    assert len(set(losses.values())) == len(losses)
    looped(optimizer=lambda module: apart(module, torch.optim.AdamW))
    looped(options=Options(optimizer="adamw", steps=3))


def other_optimizers(tmp_path):
    for name in ("nadam", "rmsprop", "muon", torch.optim.NAdam):
        with pytest.raises(ValueError, match="a loop of your own, refimpl.torch.Trainer, takes any optimizer"):
            Options(optimizer=name)
    looped(optimizer=lambda module: apart(module, torch.optim.NAdam))


def groups(tmp_path):
    def of(module):
        named = dict(module.named_parameters())
        return [{"params": [p for p in named.values() if p.ndim > 1]},
                {"params": [p for p in named.values() if p.ndim < 2], "lr": 0.0, "weight_decay": 0.0}]

    module = module_of("recommender")
    before = module.hidden.bias.detach().clone(), module.hidden.weight.detach().clone()
    trained(module=module, model={"groups": of(module)}, optimizer="adamw", weight_decay=0.1)  # TorchModel(..., groups)
    assert torch.equal(module.hidden.bias, before[0]) and not torch.equal(module.hidden.weight, before[1])
    with pytest.raises(TypeError, match=r"no_decay is unknown here: say it to the model, TorchModel\(..., groups="):
        Options(no_decay=["bias"])


def pytorchs_names(tmp_path):
    found = [trained(optimizer="adam", optimizer_options=told)[1][-1] for told in (
        {"betas": (0.8, 0.9), "eps": 1e-3}, {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3})]
    assert found[0]["loss"] == found[1]["loss"]
    trained(optimizer="sgd", optimizer_options={"momentum": 0.9, "nesterov": True})
    with pytest.raises(ValueError, match="momentum has no option dampening; it has mu; a loop of your own"):
        Options(optimizer="sgd", optimizer_options={"momentum": 0.9, "dampening": 0.5})


def schedules(tmp_path):
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=0.01)
    lr_scheduler = StepLR(optimizer, 2, 0.5)
    for rate in (lr_scheduler, lambda step: 0.5 ** (step // 2)):
        assert [line["learning_rate"] for line in trained(rate=rate)[1]] == [0.01, 0.01, 0.005, 0.005]
    trained(rate="cosine", warmup=1, rate_steps=9)
    with pytest.raises(ValueError, match="ReduceLROnPlateau needs the loss of each step: a loop of your own"):
        Options(rate=torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer), learning_rate=0.01)


def changed_on_resume(tmp_path):
    trained(session={"output": tmp_path})
    with pytest.raises(Exception, match=r"say train\(..., change=\['learning_rate'\]\)"):
        trained(session={"output": tmp_path, "resume": tmp_path}, steps=5, learning_rate=0.5)
    trained(session={"output": tmp_path, "resume": tmp_path, "change": ["learning_rate"]}, steps=5, learning_rate=0.5)
    assert [line["learning_rate"] for line in read_metrics(tmp_path)] == [0.01] * 4 + [0.5]
    trainer, _ = looped()
    trainer.load_state_dict(trainer.state_dict())


def clipping(tmp_path):
    free, clipped = (trained(clip_norm=norm)[1][1]["loss"] for norm in (None, 1e-3))
    assert free != clipped
    looped(optimizer=lambda module: apart(module, torch.optim.Adam),
           each=lambda trainer, _: trainer.clip_grad_norm_(1.0))


def accumulation(tmp_path):
    """More microbatches of one size: the batch is larger."""
    small, large = (trained(TorchData(DataLoader(Items(), 2 * microbatches), microbatches=microbatches))[1][0]
                    for microbatches in (4, 8))
    assert (small["examples"], large["examples"]) == (8, 16)
    with pytest.raises(TypeError, match="accumulate_grad_batches is unknown here: give the data more microbatches"):
        Options(accumulate_grad_batches=4)


def early_stopping(tmp_path):
    lines = []

    def progress(line):
        lines.append(line)
        return line["step"] == 2  # True: ends here

    assert trained(session={"progress": progress})[2].steps == 2 == len(lines)
    trainer, done = looped(1)[0], 0
    for batch in trainer.shard(loader()):
        if trainer.loss(batch).item() > 0:
            break
        done += 1
    assert not done
    with pytest.raises(TypeError, match="early_stopping is unknown here: give progress, a function of each step's"):
        train(None, None, early_stopping=3)


def the_best(tmp_path):
    heldout = TorchData(loader(shuffle=False), 8)
    module, lines, _ = trained(heldout=heldout, rate=lambda step: 1.0 if step < 2 else 1e3, session={
        "keep_best": True, "evaluate_every": 1, "output": tmp_path})
    lines = read_metrics(tmp_path)
    losses = [line["heldout"]["loss"] for line in lines]
    assert steps_saved(tmp_path / "best") == [1 + losses.index(min(losses))] and losses[-1] > min(losses)
    model = TorchModel(module, squared)
    model.load(str(tmp_path / "best"))
    trainer, _ = looped()
    assert trainer.state_dict()["updates"] == 3


def per_word(tmp_path):
    words_of_each_item = np.full(len(Items()), 1)
    words_of_each_item[5] = 0
    items = Items()
    items.targets[5] = -100
    data = TorchData(DataLoader(items, 16), 8, counts=words_of_each_item, ignore_index=-100)
    _, lines, _ = trained(data, loss=lambda module, batch: (
        (module(batch.inputs) - batch.targets).square() * batch.weights).sum())
    assert [line["examples"] for line in lines] == [15, 16, 14, 15]


def own_metrics(tmp_path):
    def loss(module, batch):
        batch.metrics["kl"] = module.hidden.weight.square().sum() * len(batch.targets)
        return squared(module, batch)

    trained(loss=loss, model={"metrics": ["kl"]}, session={"output": tmp_path})  # TorchModel(..., metrics)
    assert all(line["metrics"]["kl"] > 0 for line in read_metrics(tmp_path))
    trainer, _ = looped()
    assert {"loss", "gradient_norm", "examples"} <= trainer.metrics.keys()


def epochs(tmp_path):
    data, epochs = TorchData(loader(), 8), 2
    assert trained(data, steps=epochs * data.steps_per_epoch)[2].steps == 6
    with pytest.raises(TypeError, match=r"epochs is unknown here: say steps=epochs \* data.steps_per_epoch"):
        train(None, None, epochs=2)


def samplers(tmp_path):
    drawn = WeightedRandomSampler([1.0] * 10 + [0.0] * 36, 32)
    data = TorchData(DataLoader(Items(), 16, sampler=drawn), 8)
    assert data.order(0).max() < 10 and trained(data)[1][0]["examples"] == 16
    with pytest.raises(ValueError, match="the loader has a DistributedSampler .* leave DistributedSampler and batch"):
        TorchData(DataLoader(Items(), 16, sampler=torch.utils.data.DistributedSampler(Items(), 2, 0)), 8)


def moving_buffers(tmp_path):
    class Averaged(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.whole = module_of("recommender")
            self.register_buffer("ema", torch.zeros(2, dtype=torch.float64))

        def forward(self, inputs):
            self.ema.mul_(0.9).add_(inputs[2].mean(0), alpha=0.1)
            return self.whole(inputs)

    assert trained(module=Averaged(), model={"buffers": ["ema"]})[0].ema.abs().min() > 0  # TorchModel(..., buffers)
    with pytest.raises(Exception, match=r"buffer ema is changed in the forward pass: .* buffers=\['ema'\]"):
        trained(module=Averaged())


def workers(tmp_path):
    with pytest.warns(UserWarning, match="num_workers=2 is not used"):
        TorchData(loader(num_workers=2), 8)


def values_afterwards(tmp_path):
    module, _, result = trained()
    assert result.rank == 0
    torch.save(module.state_dict(), tmp_path / "learned.pt")
    other = module_of("recommender")
    other.load_state_dict(torch.load(tmp_path / "learned.pt"))
    assert torch.equal(other.items.weight, module.items.weight)
    trainer, _ = looped()
    assert trainer.is_main_process and trainer.gather().state_dict()


def a_run(tmp_path):
    output = tmp_path / "run"
    trained(session={"output": output})
    trained(session={"output": output, "resume": output}, steps=5)
    lines = read_metrics(output)
    assert [line["step"] for line in lines] == [1, 2, 3, 4, 5] and "bytes_sent" in lines[0]
    trainer, _ = looped()
    assert trainer.metrics["step"] == 3


TRIALS = {
    "SGD, momentum, Nesterov, Adagrad, Adam, AdamW, LARS, LAMB": optimizers,
    "NAdam, RMSprop, Muon, your own": other_optimizers, "parameter groups, no decay for biases": groups,
    "`betas`, `eps`, `momentum`, `nesterov`": pytorchs_names, "a scheduler": schedules,
    "another rate on resume": changed_on_resume, "clipping": clipping, "gradient accumulation": accumulation,
    "early stopping": early_stopping, "keeping the best": the_best, "a loss per word": per_word,
    "metrics of your own, parts of a loss": own_metrics, "epochs": epochs, "a weighted sampler": samplers,
    "buffers that `forward` changes, spectral norm": moving_buffers, "`num_workers`": workers,
    "the values afterwards, a `.pt` file": values_afterwards,
    "a run directory, resume, metrics.jsonl, bytes": a_run,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", TRIALS)
def test_an_expectation(name, tmp_path):
    TRIALS[name](tmp_path)


def test_each_row_has_a_trial_and_each_trial_a_row():
    assert list(table()) == list(TRIALS)


@pytest.mark.parametrize("name", table())
def test_a_rows_words_are_those_of_its_trial(name):
    source = inspect.getsource(TRIALS[name]) + inspect.getsource(trained) + inspect.getsource(looped)
    for code in re.findall("`([^`]*)`", " ".join(table()[name])):
        for word in re.findall(r"[A-Za-z_]{3,}", re.sub('"[^"]*"', "", code)):
            assert word in source, (code, word)


def test_words_that_no_trial_uses_are_found():
    assert "teleport" not in inspect.getsource(groups) and "groups" in inspect.getsource(groups)
