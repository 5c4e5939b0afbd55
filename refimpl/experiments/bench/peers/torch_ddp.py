"""A module trained with DistributedDataParallel over gloo: what a PyTorch programmer would write, at its quickest.

Dense gradients leave in buckets while the backward pass goes on; those of nn.Embedding(sparse=True) one by one, by
gloo's sparse allreduce: every rank gets all ranks' rows, and merges them.
"""

import torch

from kernels.random import key_of
from refimpl.torch.repeatable import seed
from refimpl.torch.tensors import on_device

CPU, SEED = torch.device("cpu"), 0


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


class DdpReplica:
    """This rank's replica of a work's module. Local to make with a module; with ``distributed``, Collective.

    Its random numbers (dropout) are those of our step, so that both train alike.
    """

    def __init__(self, work, data, rank: int):
        self.module, self.loss, self.data, self.rank, self.state = work.make(), work.loss, data, rank, {}
        for table in work.quick_dense:
            self.module.get_submodule(table).sparse = False
        self.parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.optimizer, self.clip_norm = work.optimizer(self.parameters), work.options.get("clip_norm")
        self.ddp = torch.nn.parallel.DistributedDataParallel(self.module, init_sync=False, forward_sync_buffers=False,
                                                             gradient_as_bucket_view=True)
        self.number = 0

    def step(self) -> float:
        """Do the next step; return this rank's part of the loss. Collective."""
        if self.data.starts_epoch(self.number):
            self.state = {}
        loss = self.forward(self.ddp, self.number, self.state)
        self.optimizer.zero_grad()
        loss.backward()
        if self.clip_norm is not None:
            clip(self.parameters, self.clip_norm)
        self.optimizer.step()
        self.number += 1
        return loss.item()

    def forward(self, module, number, state):
        """Return the mean loss of this rank's examples: DDP takes the ranks' mean. state is changed. Local."""
        batch = self.data.microbatch(number, self.rank)
        batch.state = state
        given = on_device(batch, CPU)
        seed(key_of(SEED, "microbatch", number, self.rank))
        loss = self.loss(module, given) * (self.data.microbatches / batch.normaliser)
        state.update({name: value.detach() for name, value in given.state.items()})
        return loss

    def computation(self):
        """Return a callable: forward and backward pass of a microbatch, without any exchange. Local."""

        def compute():
            self.optimizer.zero_grad()
            self.forward(self.module, 0, {}).backward()

        return compute
