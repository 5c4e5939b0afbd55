"""PyTorch's DistributedDataParallel over gloo, dense and sparse gradients, torch.optim: as an adapter.

    python -m refimpl conformance run --target refimpl.conformance.adapters.torch_ddp --ranks 4
    torchrun ... is not needed: the suite starts the processes and sets what torchrun sets

Each function is what a program would write; a module gives the gradients that the case says, in its backward pass.
"""

import atexit
import io
from contextlib import nullcontext
from functools import cache

import numpy as np
import torch
import torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel

from refimpl.conformance.adapters import functions_of
from refimpl.conformance.adapters.torch_given import GivenParameters, tensors, untouched

LAUNCHER = "processes"
BUCKET = 256
"""Bytes of a fused message: bucket_cap_mb, small enough to be seen in a small case."""
new_group = cache(lambda ranks: dist.new_group(list(ranks)))
"""Makes each process group once."""


class TorchDDP:
    """The protocol's functions over torch.distributed's default group."""

    signature = wrapped = module = None

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

    def aggregate_rows(self, gradients, shapes=(), *group) -> dict:
        """Return what a backward pass leaves in ``grad``: name -> (ids, rows), or an array of a dense variable.

        A module is kept for steps of one shape, as in a training.
        """
        signature = [(n, *_like(gradients[n], shapes[n] if n in shapes else None)) for n in sorted(gradients)], group
        if signature != self.signature:
            self.wrapped = None  # its buckets go before new ones come
            self.module = GivenParameters({name: (untouched if name in shapes else torch.zeros)(shape, dtype=dtype)
                                           for name, shape, dtype in signature[0]}, shapes)
            self.wrapped, self.signature = self.wrap_gradients(self.module, *group), signature
        self.wrapped.zero_grad()
        self.wrapped({name: tensors(part) for name, part in gradients.items()}).backward()
        return self.module.gradients()

    def aggregate_bags(self, bags, shapes, pooling, padding) -> dict:
        """Return the same for layers that read rows in bags."""
        module = GivenParameters({n: torch.zeros(shapes[n]) for n in bags}, shapes, mode=pooling, padding_idx=padding)
        self.wrapped, self.signature = self.wrap_gradients(module), None  # it reduces nothing once it is collected
        self.wrapped({name: tensors(part) for name, part in bags.items()}).backward()
        return module.gradients()

    aggregate_dense = aggregate_all = aggregate_uses = aggregate_rows

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

    def update(self, task) -> list[dict]:
        """Return, update by update, name -> value of every parameter."""
        run = Run(task)
        seen = []
        for first in range(0, len(task.steps), task.window):
            if len(seen) == task.resume_after:
                run = resumed(run)
            run.train(task.steps[first:first + task.window])
            seen.append(run.module.values())
        return seen

    accumulate = resume = update

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

    def sample(self, count, epoch):
        """Return the examples that DistributedSampler gives this rank."""
        rank, size = self.world()
        sampler = torch.utils.data.DistributedSampler(range(count), size, rank, shuffle=True)
        sampler.set_epoch(epoch)
        return np.array(list(sampler), np.int64)

    def draw(self, count, step):
        """Return random numbers after a seed of this rank's and step's own."""
        rank, size = self.world()
        torch.manual_seed(step * size + rank)
        return torch.rand(count, dtype=torch.float64).numpy()


class Run:
    """One training: module, optimizers, scaler, schedule of the rate."""

    def __init__(self, task):
        self.task = task
        start = {name: torch.from_numpy(value.copy()) for name, value in task.start.items()}
        self.module = GivenParameters(start, [v.name for v in task.variables if v.sparse])
        self.wrapped = DistributedDataParallel(self.module)
        self.optimizers = make_optimizers(task, self.module)
        self.schedules = [torch.optim.lr_scheduler.ExponentialLR(o, task.rate_factor) for o in self.optimizers]
        self.scaler = torch.amp.GradScaler("cpu", init_scale=task.loss_scale, enabled=task.loss_scale != 1.0)

    def train(self, window):
        """Do one update. window: this rank's gradients, micro-step after micro-step; they are averaged."""
        for i, step in enumerate(window):
            own = {name: tensors(part) for name, part in step.items()}
            with nullcontext() if i + 1 == len(window) else self.wrapped.no_sync():
                self.scaler.scale(torch.zeros(()))  # the gradients given are scaled: the scaler only has to know
                (self.wrapped(own) / len(window)).backward()
        if self.task.clip is not None:
            for optimizer in self.optimizers:
                self.scaler.unscale_(optimizer)  # the norm is of gradients without the loss scale
            dense = [p for name, p in self.module.named.items() if name not in self.module.sparse]
            torch.nn.utils.clip_grad_norm_(dense, self.task.clip)  # it refuses sparse gradients
        for optimizer, schedule in zip(self.optimizers, self.schedules):
            self.scaler.step(optimizer)
            optimizer.zero_grad()
            schedule.step()
        self.scaler.update()

    def parts(self) -> list:
        """Return everything that has a state_dict."""
        return [self.module, *self.optimizers, *self.schedules, self.scaler]


OPTIMIZERS = {
    "sgd": lambda parameters, rate, options: torch.optim.SGD(parameters, rate),
    "momentum": lambda parameters, rate, options: torch.optim.SGD(
        parameters, rate, options["mu"], options.get("dampening", 0), options.get("decay", 0)),
    "nesterov": lambda parameters, rate, options: torch.optim.SGD(parameters, rate, options["mu"], nesterov=True),
    "adamw": lambda parameters, rate, options: torch.optim.AdamW(
        parameters, rate, (options["beta1"], options["beta2"]), options["epsilon"], options["decay"]),
    "adagrad": lambda parameters, rate, options: torch.optim.Adagrad(
        parameters, rate, initial_accumulator_value=options["initial"], eps=options["epsilon"]),
}
"""Name -> what makes the optimizer of dense and sparse gradients alike."""
OPTIMIZERS["dampened"] = OPTIMIZERS["momentum"]


def make_optimizers(task, module: GivenParameters) -> list[torch.optim.Optimizer]:
    """Return the optimizers of a task: Adam takes no sparse gradients, so rows get SparseAdam beside it."""
    options = task.options
    if task.optimizer != "adam":
        return [OPTIMIZERS[task.optimizer](list(module.named.values()), task.rate, options)]
    both = {False: torch.optim.Adam, True: torch.optim.SparseAdam}
    groups = {kind: [p for name, p in module.named.items() if (name in module.sparse) is kind] for kind in both}
    return [both[kind](group, task.rate, (options["beta1"], options["beta2"]), options["epsilon"])
            for kind, group in groups.items() if group]


def _like(part, table):
    """Return (shape, dtype) of a variable by its gradient, or the first of several uses. table: shape, None: dense."""
    part = part[0] if isinstance(part, list) else part
    array = part[1] if table else part
    return table or array.shape, torch.from_numpy(np.empty(0, array.dtype)).dtype


def resumed(run: Run) -> Run:
    """Return a fresh training that goes on from a checkpoint of this one."""
    file = io.BytesIO()
    torch.save([part.state_dict() for part in run.parts()], file)
    file.seek(0)
    fresh = Run(run.task)
    for part, state in zip(fresh.parts(), torch.load(file, weights_only=True)):
        part.load_state_dict(state)
    return fresh


__getattr__ = functions_of(TorchDDP)
