"""JAX in several processes, global arrays over gloo, optax's optimizers: as an adapter.

    python -m refimpl conformance run --target refimpl.conformance.adapters.jax_optax --ranks 4

Each process has one CPU device and one block of a global array; ``jnp.mean`` over the blocks is the allreduce. The
gradient of a look-up is dense in JAX: a row that no rank touched has the gradient 0.
"""

import os
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np
import optax
from flax import serialization
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from refimpl.conformance.adapters import functions_of

LAUNCHER = "processes"
OPTIMIZERS = {"sgd": optax.sgd, "nesterov": lambda rate, mu: optax.sgd(rate, mu, nesterov=True),
              "momentum": lambda rate, mu, decay=0.0: optax.chain(optax.add_decayed_weights(decay),
                                                                  optax.sgd(rate, mu)),
              "adamw": lambda rate, beta1, beta2, epsilon, decay: optax.adamw(rate, beta1, beta2, epsilon,
                                                                              weight_decay=decay),
              "adagrad": lambda rate, initial, epsilon: optax.adagrad(rate, initial, epsilon),
              "adam": lambda rate, beta1, beta2, epsilon: optax.adam(rate, beta1, beta2, epsilon)}


@jax.jit
def gradient_of(values, given):
    """Return the gradient of a loss: name -> array. given: what is multiplied with the values, or with some rows."""
    def loss(values):
        read = [((values[name][part[0]] if isinstance(part, tuple) else values[name]),
                 part[1] if isinstance(part, tuple) else part) for name, uses in given.items() for part in uses]
        return sum((x * g).sum().astype("float32") for x, g in read)

    return jax.grad(loss)(values)


@cache
def over(ranks):
    """Return (sharding by rank, mean over the ranks) of some processes."""
    mesh = Mesh([d for d in jax.devices() if d.process_index in ranks], "ranks")
    everywhere = NamedSharding(mesh, PartitionSpec())
    return NamedSharding(mesh, PartitionSpec("ranks")), jax.jit(
        lambda blocks: jax.tree.map(lambda x: x.mean(0), blocks), out_shardings=everywhere)


def mean(local, ranks) -> dict:
    """Return name -> mean over the ranks."""
    by_rank, mean_of = over(tuple(ranks))
    blocks = {n: jax.make_array_from_process_local_data(by_rank, np.asarray(x)[None]) for n, x in local.items()}
    return {n: np.asarray(x.addressable_data(0)) for n, x in mean_of(blocks).items()}


class JaxOptax:
    """The protocol's functions over JAX's processes."""

    def __init__(self):
        jax.config.update("jax_enable_x64", True)  # the cases have float64 and large row numbers
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        jax.distributed.initialize(address, int(os.environ["WORLD_SIZE"]), int(os.environ["RANK"]))
        self.everyone = range(jax.process_count())

    def world(self):
        """Return (rank, size)."""
        return jax.process_index(), jax.process_count()

    def describe(self) -> dict:
        """Everything is an average of dense arrays; MultiSteps never applies a window that is not full."""
        return {"format": 1, "name": f"JAX {jax.__version__}, optax {optax.__version__}", "untouched": "decayed",
                "partial": "dropped", "start": "rank 0", "dtypes": ["float16", "float32", "float64"],
                "adagrad": "inside", "most_rows": 10**6,
                "supports": ["clip", "loss-scale", "momentum", "adagrad", "adam", "rate-factor", "nesterov",
                             "adamw", "weight-decay", "row-decay"]}

    def aggregate_rows(self, gradients, shapes=()) -> dict:
        """Return name -> mean of the dense gradients."""
        return mean(self.local(gradients, shapes), self.everyone)

    aggregate_dense = aggregate_all = aggregate_uses = aggregate_rows

    def aggregate_bags(self, bags, shapes, pooling, padding):
        """Return name -> mean of the gradients of pooled look-ups: segment sums."""
        def loss(table, ids, offsets, g):
            bag = jnp.searchsorted(offsets, jnp.arange(len(ids)), side="right") - 1
            weight = jnp.ones(len(ids)) if padding is None else (ids != padding).astype(float)
            counts = jnp.maximum(1, jax.ops.segment_sum(weight, bag, len(offsets)))
            weight = weight / counts[bag] if pooling == "mean" else weight
            pooled = jax.ops.segment_sum(table[ids] * weight[:, None].astype(table.dtype), bag, len(offsets))
            return (pooled * g).sum()

        return mean({n: jax.grad(loss)(jnp.zeros(shapes[n], part[2].dtype), *part) for n, part in bags.items()},
                    self.everyone)

    def local(self, gradients, shapes) -> dict:
        """Return name -> this rank's gradient: of a variable's uses together."""
        uses = {n: part if isinstance(part, list) else [part] for n, part in gradients.items()}
        values = {n: jnp.zeros(shapes[n], parts[0][1].dtype) if n in shapes else jnp.zeros_like(parts[0])
                  for n, parts in uses.items()}
        return gradient_of(values, uses)

    def aggregate_group(self, arrays, ranks):
        """Return name -> mean over a mesh of these ranks' devices; {} on the others."""
        return mean(self.local(arrays, ()), ranks) if jax.process_index() in ranks else {}

    def broadcast(self, arrays, root):
        """Return name -> rank ``root``'s array."""
        return multihost_utils.broadcast_one_to_all(arrays, is_source=jax.process_index() == root)

    def update(self, task) -> list[dict]:
        """Return, update by update, name -> value of every parameter."""
        optimizer, shapes = self.optimizer(task), {v.name: v.shape for v in task.variables if v.sparse}
        values = self.broadcast(task.start, 0)
        state, seen, step = optimizer.init(values), [], jax.jit(optimizer.update)
        for number, gradients in enumerate(task.steps):
            if task.resume_after and number == task.resume_after * task.window:
                saved = serialization.to_bytes((values, state))
                values, state = serialization.from_bytes((task.start, optimizer.init(task.start)), saved)
            total = {n: g / task.loss_scale for n, g in self.aggregate_rows(gradients, shapes).items()}
            changes, state = step(total, state, values)
            values = optax.apply_updates(values, changes)
            seen += [jax.tree.map(np.asarray, values)] if optimizer.has_updated(state) else []
        return seen

    accumulate = resume = update

    def optimizer(self, task):
        """Return a task's optimizer, as a chain."""
        rate = optax.exponential_decay(task.rate, 1, task.rate_factor)
        clip = [] if task.clip is None else [optax.clip_by_global_norm(task.clip)]
        return optax.MultiSteps(optax.chain(*clip, OPTIMIZERS[task.optimizer](rate, **task.options)), task.window)

    def reduce_loss(self, losses, gradients):
        """Return the mean loss over all examples, and its gradient."""
        sums = {"loss": losses.sum(), "gradient": gradients.sum(0), "count": np.float64(len(losses))}
        total = mean(sums, self.everyone)
        return total["loss"] / total["count"], total["gradient"] / total["count"]

    def draw(self, count, step):
        """Return random numbers by a key of this rank's and step's own."""
        key = jax.random.fold_in(jax.random.fold_in(jax.random.key(0), step), jax.process_index())
        return np.asarray(jax.random.uniform(key, (count,)))


__getattr__ = functions_of(JaxOptax)
