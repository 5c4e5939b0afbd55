"""The losses of a training, here and in a plain loop of PyTorch's: the same but for rounding."""

import numpy as np
import torch
from mpi4py import MPI

from refimpl.torch import TorchModel
from refimpl.torch.tensors import on_device
from refimpl.training.options import Options
from refimpl.training.session import train

STEPS, RATE = 5, 0.3


def losses_of(module, loss, data, ours=None, **options):
    """Return the loss of each step of a training by gradient descent, or by what ``ours`` says, fields of Options."""
    found = []
    if callable(options.get("groups")):
        options["groups"] = options["groups"](module)
    train(TorchModel(module, loss, **options), data, comm=MPI.COMM_SELF,
          options=Options(**{"steps": STEPS, "optimizer": "sgd", "learning_rate": RATE, **(ours or {})}),
          progress=lambda record: found.append(record["loss"]))
    return found


def descent(module):
    return [torch.optim.SGD(module.parameters(), RATE)]


def plain_losses(module, loss, data, theirs=descent):
    """Return the same of a loop of one's own. theirs: theirs(module) -> PyTorch's optimizers."""
    optimizers, found = theirs(module), []
    for step in range(STEPS):
        module.zero_grad()
        batches = [data.microbatch(step, v) for v in range(data.microbatches)]
        totals = [loss(module, on_device(batch, torch.device("cpu"))) / data.examples(step) for batch in batches]
        for total in totals:
            total.backward()
        for optimizer in optimizers:
            optimizer.step()
        found.append(sum(total.item() for total in totals))
    return found


def hold_to_plain_loop(make, loss, data, ours=None, theirs=descent, **options):
    """Hold a training of make() to the plain loop: losses and what was learned; it must learn."""
    here, there = make(), make()
    found, wanted = losses_of(here, loss, data, ours, **options), plain_losses(there, loss, data, theirs)
    assert np.allclose(found, wanted, rtol=1e-11, atol=0)
    for (name, one), other in zip(here.named_parameters(), there.parameters()):
        assert torch.allclose(one, other, rtol=1e-9, atol=1e-12), name
    for (name, one), other in zip(here.named_buffers(), there.buffers()):
        assert name.endswith("num_batches_tracked") or torch.allclose(one, other), name
    return found
