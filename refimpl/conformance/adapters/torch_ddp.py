"""PyTorch's DistributedDataParallel over gloo, dense and sparse gradients, torch.optim: as an adapter.

    python -m refimpl conformance run --target refimpl.conformance.adapters.torch_ddp --ranks 4
    torchrun ... is not needed: the suite starts the processes and sets what torchrun sets

Each function is what a program would write; a module gives the gradients that the case says, in its backward pass.
"""

import atexit
from functools import cache

import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from refimpl.conformance.adapters import functions_of
from refimpl.conformance.adapters.torch_given import tensors
from refimpl.conformance.adapters.torch_training import TorchTraining

LAUNCHER = "processes"
BUCKET = 256
"""Bytes of a fused message: bucket_cap_mb, small enough to be seen in a small case."""
new_group = cache(lambda ranks: dist.new_group(list(ranks)))
"""Makes each process group once."""


class TorchDDP(TorchTraining):
    """The protocol's functions over torch.distributed's default group."""

    def __init__(self):
        dist.init_process_group("gloo")  # RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT
        atexit.register(dist.destroy_process_group)

    def world(self):
        """Return (rank, size)."""
        return dist.get_rank(), dist.get_world_size()

    def describe(self) -> dict:
        """DDP averages both kinds over N, however many ranks touched a row; only dense gradients can be clipped."""
        return {"format": 1, "name": f"PyTorch {torch.__version__} DDP over gloo", "dense": "average",
                "sparse": "average", "divide": "before", "loss": "mean-of-means", "start": "rank 0",
                "sampler": "pads", "fusion_bytes": BUCKET, "untouched": "decayed-by-momentum", "clip_norm": "dense",
                "adam": "hat-rows", "dtypes": ["float16", "float32", "float64"],
                "supports": ["clip", "loss-scale", "momentum", "adagrad", "adam", "rate-factor", "nesterov",
                             "dampened", "adamw", "weight-decay"]}

    def wrap_gradients(self, module, group=None):
        """Return the wrapped module, of which only gradients count. group: the ranks that aggregate, None: all."""
        return DistributedDataParallel(module, init_sync=False, process_group=group, bucket_cap_mb=BUCKET / 2**20)

    def messages(self):
        """Return the sizes of DDP's buckets, as it logs them itself."""
        return [int(size) for size in self.wrapped._get_ddp_logging_data()["bucket_sizes"].split(",")]

    def aggregate_group(self, arrays, ranks):
        """Return name -> array, aggregated in a process group of these ranks; {} on the others."""
        group = new_group(tuple(ranks))
        return self.aggregate_rows(arrays, (), group) if dist.get_rank() in ranks else {}

    def broadcast(self, arrays, root):
        """Return name -> rank ``root``'s array."""
        for name in sorted(arrays):
            dist.broadcast(torch.from_numpy(arrays[name]), root)  # in place
        return arrays

    def reduce_loss(self, losses, gradients):
        """Train one step from 0 with sgd at rate 1, Join for ranks without examples; each takes its own mean."""
        module = torch.nn.Linear(gradients.shape[1], 1, bias=False, dtype=torch.float64)
        torch.nn.init.zeros_(module.weight)
        wrapped = DistributedDataParallel(module)
        optimizer = torch.optim.SGD(wrapped.parameters(), lr=1.0)
        mean = torch.zeros((), dtype=torch.float64)
        with Join([wrapped]):
            for inputs, targets in [(gradients, losses)] if len(losses) else []:
                mean = (wrapped(tensors(inputs))[:, 0] + tensors(targets)).mean()
                mean.backward()
                optimizer.step()
        loss = mean.detach().clone()
        dist.all_reduce(loss)
        return (loss / dist.get_world_size()).numpy(), -module.weight.detach().numpy()[0]


__getattr__ = functions_of(TorchDDP)
