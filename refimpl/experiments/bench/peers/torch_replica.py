"""Train a module of PyTorch for benchmarks, in eager mode, on one rank or with DistributedDataParallel over gloo.

It is what a PyTorch programmer would write, in its fastest form. With DistributedDataParallel dense gradients are sent
in buckets during the backward pass. Those of nn.Embedding(sparse=True) are sent one by one, by gloo's sparse allreduce:
every rank gets all ranks' rows, and merges them.
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Callable

import torch
from torch import distributed
from torch.distributed.algorithms.ddp_comm_hooks import default_hooks, powerSGD_hook
from torch.nn import functional

from kernels.random import key_of
from models.workload import Workload
from refimpl.torch.repeatable import seed
from refimpl.torch.tensors import on_device

SEED = 0
ONE_BUCKET = 2**12  # MiB: larger than any model here


@dataclass(frozen=True)
class Work:
    """A training, the same for both sides.

    make: make() -> the module, with the same values on every rank.  loss: loss(module, batch) -> sum over a microbatch.
    data: data(V) -> a ``models.Data``.  options: the optimizer's, for ``Options``.  unit: the name of its examples.
    optimizer: optimizer(parameters) -> PyTorch's optimizer with the same mathematics.
    quick_dense: small tables for which DDP is faster with dense gradients, which share a bucket with others.
    """

    size: str
    unit: str
    make: Callable[[], torch.nn.Module]
    loss: Callable
    data: Callable[..., Any] | None
    options: dict
    optimizer: Callable
    quick_dense: tuple = ()


def adagrad(rate, parameters):
    """Return PyTorch's Adagrad with the initial value and epsilon of ours. Local."""
    return torch.optim.Adagrad(parameters, lr=rate, initial_accumulator_value=1.0, eps=0.0)


def seeded(make):
    """Return a function that makes a module, with the same values each time. Local."""
    def made():
        torch.manual_seed(1)
        return make()

    return made


def image_loss(module, batch):
    """Return the cross entropy of (n, height, width, channels) uint8 images, summed. Local."""
    x = batch.inputs.permute(0, 3, 1, 2).float() / 127.5 - 1
    return functional.cross_entropy(module(x), batch.targets, reduction="sum")


def image_work(make, rate: float) -> Work:
    """Return the work of a network for images, without data. make: see ``Work``.  rate: of SGD. Local."""
    return Work("", "images", seeded(make), image_loss, None, {}, partial(torch.optim.SGD, lr=rate, momentum=0.9))


def work_for_images(network, workload: Workload) -> Work:
    """Return how PyTorch trains a workload of ours. network(model) -> the nn.Module of a model of ours. Local."""
    model, options = workload.make_model(), workload.entry.optimizer
    return replace(image_work(partial(network, model), options["learning_rate"]), size=str(workload),
                   unit=workload.entry.unit, data=workload.make_data, options=options)


@torch.no_grad()
def clip(parameters, largest: float):
    """Scale all gradients so that their norm is at most ``largest``; coalesce the sparse ones, once. Local."""
    values = []
    for parameter in parameters:
        if parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            values.append(parameter.grad.values())
        else:
            values.append(parameter.grad)
    norm = torch.nn.utils.get_total_norm(values).item()
    if norm > largest:
        torch._foreach_mul_(values, largest / norm)


class Replica:
    """A work's module, trained on one microbatch of each step. Local.

    data: a ``models.Data``; the replica trains on its microbatch ``rank``.  on: the device.
    Its random numbers (dropout) are those of our step, so that both sides compute the same.
    """

    def __init__(self, work: Work, data, rank: int = 0, on: str = "cpu"):
        self.loss, self.data, self.rank, self.device, self.state = work.loss, data, rank, torch.device(on), {}
        self.module, self.number = work.make().to(on), 0
        for table in work.quick_dense:
            self.module.get_submodule(table).sparse = False
        self.spread = self.spread_out()
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer, self.clip_norm = work.optimizer(self.parameters), work.options.get("clip_norm")

    def spread_out(self):
        """Return the module that a step calls: this one, or one that lets ranks train it together."""
        return self.module

    def step(self) -> float:
        """Do the next step; return the mean loss of this microbatch."""
        loss = self.differentiate()
        self.finish_gradients()
        self.optimizer.step()
        return loss.item()

    def differentiate(self):
        """Compute the next step's gradients; return its loss."""
        if self.data.starts_epoch(self.number):
            self.state = {}
        loss = self.forward(self.spread, self.number, self.state)
        self.optimizer.zero_grad()
        loss.backward()
        self.number += 1
        return loss

    def finish_gradients(self):
        """Finish the gradients before they are applied: clip them."""
        if self.clip_norm is not None:
            clip(self.parameters, self.clip_norm)

    def forward(self, module, number, state):
        """Return the mean loss of this rank's examples, because DDP averages over ranks. state: changes. Local."""
        batch = self.data.microbatch(number, self.rank)
        batch.state = state
        given = on_device(batch, self.device)
        seed(key_of(SEED, "microbatch", number, self.rank), self.device)
        loss = self.loss(module, given) * (self.data.microbatches / batch.normaliser)
        state.update({name: value.detach() for name, value in given.state.items()})
        return loss

    def computation(self):
        """Return a callable: forward and backward pass of a microbatch, without any exchange. Local."""

        def compute():
            self.optimizer.zero_grad()
            self.forward(self.module, 0, {}).backward()

        return compute


class DdpReplica(Replica):
    """A rank's replica in DistributedDataParallel. Its step is collective, after ``join_gloo``.

    hook: "fp16" or "powersgd", PyTorch's hooks that encode gradients; "" for none.  alone: it trains by itself.
    PowerSGD gets only one bucket. It begins an allreduce when another ends, and gloo matches allreduces by their order.
    With two buckets the order may differ between ranks, and then all would wait for ever.
    """

    def __init__(self, work: Work, data, rank: int = 0, hook: str = "", alone: bool = False):
        own = [distributed.get_rank()]
        self.hook, self.group = hook, distributed.new_group(own, use_local_synchronization=True) if alone else None
        super().__init__(work, data, rank)

    def spread_out(self):
        spread = torch.nn.parallel.DistributedDataParallel(
            self.module, init_sync=False, forward_sync_buffers=False, gradient_as_bucket_view=True,
            process_group=self.group, bucket_cap_mb=ONE_BUCKET if self.hook == "powersgd" else None)
        if self.hook == "fp16":
            spread.register_comm_hook(self.group, default_hooks.fp16_compress_hook)
        elif self.hook == "powersgd":
            state = powerSGD_hook.PowerSGDState(self.group, matrix_approximation_rank=2, start_powerSGD_iter=2)
            spread.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
        return spread
