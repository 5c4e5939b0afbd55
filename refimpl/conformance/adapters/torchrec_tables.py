"""TorchRec: each table on one rank, FBGEMM's SGD fused with the backward pass: as an adapter.

    pip install --no-deps torchrec fbgemm-gpu-cpu==1.8.0        for torch 2.13 without a GPU
    python -m refimpl conformance run --target refimpl.conformance.adapters.torchrec_tables --ranks 4

A fused optimizer keeps no gradient: an aggregate is the negative of what SGD with rate 1 makes of zeros. FBGEMM has no
Adam on CPUs, and its Adagrad begins with 0, that of the cases with 1.
"""

import atexit
import logging
from importlib import metadata

import numpy as np
import torch
import torch.distributed as dist
from torchrec import EmbeddingBagCollection, EmbeddingBagConfig, KeyedJaggedTensor, PoolingType
from torchrec.distributed.embeddingbag import EmbeddingBagCollectionSharder
from torchrec.distributed.model_parallel import DistributedModelParallel
from torchrec.distributed.planner import EmbeddingShardingPlanner, Topology
from torchrec.distributed.planner.types import ParameterConstraints
from torchrec.optim.apply_optimizer_in_backward import apply_optimizer_in_backward

from refimpl.conformance.adapters import functions_of
from refimpl.conformance.adapters.torch_given import tensors

LAUNCHER = "processes"


class GivenTables(torch.nn.Module):
    """Tables and arrays without a model; see ``torch_given``. values: name -> tensor.  sparse: names of tables."""

    def __init__(self, values, sparse, pooling):
        super().__init__()
        self.arrays = torch.nn.ParameterDict({n: torch.nn.Parameter(v) for n, v in values.items() if n not in sparse})
        self.tables = EmbeddingBagCollection(device=torch.device("meta"), tables=[
            EmbeddingBagConfig(name=f"table {n}", feature_names=[n], num_embeddings=len(values[n]), pooling=pooling,
                               embedding_dim=-(-values[n].shape[1] // 4) * 4) for n in sparse])  # FBGEMM takes fours

    def forward(self, features, gradients, arrays):
        """Return a loss. gradients: name -> those of the bags' outputs.  arrays: name -> gradient."""
        read = self.tables(features).to_dict()
        return sum((read[n] * g).sum() for n, g in gradients.items()) + sum(
            (self.arrays[n] * g).sum() for n, g in arrays.items())


class ShardedTables:
    """A sharded model whose tables are updated in the backward pass."""

    def __init__(self, values, shapes, rate, pooling=PoolingType.SUM):
        self.shapes = shapes
        model = GivenTables(values, list(shapes), pooling)
        apply_optimizer_in_backward(torch.optim.SGD, model.tables.parameters(), {"lr": rate})
        sharders = [EmbeddingBagCollectionSharder()]
        whole = ParameterConstraints(sharding_types=["table_wise"], compute_kernels=["fused"])
        planner = EmbeddingShardingPlanner(topology=Topology(dist.get_world_size(), "cpu"),
                                           constraints={f"table {n}": whole for n in shapes})
        self.model = DistributedModelParallel(model, device=torch.device("cpu"), sharders=sharders,
                                              plan=planner.collective_plan(model, sharders, dist.group.WORLD))
        self.arrays = model.arrays
        self.dense = torch.optim.SGD(model.arrays.parameters(), rate) if len(model.arrays) else None
        for name, table in self.tables():
            table[...] = torch.nn.functional.pad(values[name], (0, table.shape[1] - shapes[name][1]))

    def tables(self):
        """Yield (name, values) of the tables on this rank."""
        for key, sharded in self.model.state_dict().items():
            for shard in sharded.local_shards() if ".embedding_bags." in key else ():
                yield key.split(".")[-2].removeprefix("table "), shard.tensor

    def step(self, gradients, bags=None):
        """Do one update. gradients: name -> array or (ids, rows): each occurrence is a bag of its own."""
        bags = bags or {n: (g[0], torch.arange(len(g[0])), g[1]) for n, g in gradients.items() if n in self.shapes}
        batch = torch.tensor(max((len(b[1]) for b in bags.values()), default=0))
        dist.all_reduce(batch, dist.ReduceOp.MAX)  # ranks have batches of one size: the last bags may be empty
        ends = [torch.cat([o, torch.full((int(batch) + 1 - len(o),), len(ids))]) for ids, o, _ in bags.values()]
        features = KeyedJaggedTensor(list(bags), torch.cat([ids for ids, *_ in bags.values()]),
                                     lengths=torch.cat([e.diff() for e in ends]))
        padded = {n: torch.nn.functional.pad(b[2], (0, -b[2].shape[1] % 4, 0, int(batch) - len(b[2])))
                  for n, b in bags.items()}
        self.model.zero_grad()
        self.model(features, padded, {n: g for n, g in gradients.items() if n not in bags}).backward()
        if self.dense:
            self.dense.step()

    def values(self) -> dict:
        """Return name -> the whole variable."""
        whole = {name: torch.zeros(shape) for name, shape in self.shapes.items()}
        for name, table in self.tables():
            whole[name] += table[:, :whole[name].shape[1]]
        for value in whole.values():
            dist.all_reduce(value)
        return {n: v.numpy() for n, v in (whole | {n: p.detach().clone() for n, p in self.arrays.items()}).items()}


class TorchRec:
    """The protocol's functions for variables of which some are tables."""

    def __init__(self):
        logging.disable(logging.WARNING)  # the planner tells at length what it does without a GPU
        dist.init_process_group("gloo")
        atexit.register(dist.destroy_process_group)

    def world(self):
        """Return (rank, size)."""
        return dist.get_rank(), dist.get_world_size()

    def describe(self) -> dict:
        """Gradients are averaged; FBGEMM's kernels are for float32, and update the rows of the gradient alone."""
        return {"format": 1, "name": f"TorchRec {metadata.version('torchrec')}", "divide": "before",
                "dtypes": ["float32"], "most_rows": 10**6, "supports": []}

    def aggregate_rows(self, gradients, shapes, bags=None, pooling=PoolingType.SUM) -> dict:
        """Return name -> mean: minus what SGD with rate 1 makes of zeros."""
        like = {n: shapes[n] if n in shapes else g.shape for n, g in gradients.items()}
        training = ShardedTables({n: torch.zeros(shape) for n, shape in like.items()}, shapes, 1.0, pooling)
        training.step({n: tensors(g) for n, g in gradients.items()}, bags)
        return {n: -v for n, v in training.values().items()}

    aggregate_all = aggregate_rows

    def aggregate_bags(self, bags, shapes, pooling, padding):
        """Return the same for pooled look-ups: TorchRec has no padding index, so these look-ups are left out."""
        kept = {}
        for name, (ids, offsets, gradients) in bags.items():
            counted = ids != padding if padding is not None else ids == ids
            kept[name] = tensors((ids[counted], np.concatenate([[0], counted.cumsum()])[offsets], gradients))
        return self.aggregate_rows(bags, shapes, kept, PoolingType[pooling.upper()])

    def update(self, task) -> list[dict]:
        """Return, update by update, name -> value of every parameter."""
        shapes = {v.name: v.shape for v in task.variables if v.sparse}
        training = ShardedTables({n: torch.tensor(a) for n, a in task.start.items()}, shapes, task.rate)
        seen = []
        for gradients in task.steps:
            training.step({n: tensors(g) for n, g in gradients.items()})
            seen.append(training.values())
        return seen


__getattr__ = functions_of(TorchRec)
