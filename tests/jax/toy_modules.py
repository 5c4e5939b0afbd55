"""One small network as each library writes it: a table, batch norm, dropout; and the plain loop that trains it."""

import importlib.util
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from kernels.random import key_of
from models.data import Examples

ROWS, STEPS, RATE = 40, 4, 0.3


def data_of(microbatches=8, dtype="float32", **options):
    random = np.random.default_rng(3)
    return Examples(random.integers(0, ROWS, (46, 3)), random.standard_normal(46).astype(dtype), microbatches, 2, 1,
                    **options)


def cast(tree, dtype):
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree)


@cache
def linen():
    """Return (network, loss) of flax's linen."""
    import flax.linen as nn

    class Net(nn.Module):
        @nn.compact
        def __call__(self, inputs, train):
            x = nn.Dense(6)(nn.Embed(ROWS, 4, name="words")(inputs).mean(1))
            x = nn.BatchNorm(use_running_average=not train, momentum=0.9)(x)
            x = nn.Dropout(0.5, deterministic=not train)(nn.tanh(x))
            return nn.Dense(1)(x)[:, 0]

    net = Net()

    def loss(variables, batch):
        out, updates = net.apply(variables, batch.inputs, batch.training, mutable=["batch_stats"],
                                 rngs=batch.rngs("dropout"))
        return ((out - batch.targets) ** 2).sum(), updates

    return net, loss


def linen_model(dtype="float32", **options):
    from refimpl.jax import LinenModel
    net, loss = linen()
    variables = net.init(jax.random.key(0), data_of().microbatch(0, 0).inputs, False)
    return LinenModel(**{"loss": loss, "variables": cast(variables, dtype), **options})


def plain_linen(data, dtype):
    """Return (losses, variable -> value) of a loop without refimpl."""
    net, _ = linen()
    variables = cast(net.init(jax.random.key(0), data.microbatch(0, 0).inputs, False), dtype)

    def share(params, stats, batch, key):
        out, updates = net.apply({"params": params, "batch_stats": stats}, batch.inputs, True, mutable=["batch_stats"],
                                 rngs={"dropout": jax.random.fold_in(key, 0)})
        return ((out - batch.targets) ** 2).sum(), updates["batch_stats"]

    losses, params, stats = plain_loop(share, variables["params"], variables["batch_stats"], data)
    return losses, {"params": params, "batch_stats": stats}


def plain_loop(share, params, stats, data):
    """Return (losses, params, stats) of gradient descent; stats are the mean of the microbatches', by examples.

    share: share(params, stats, batch, key) -> (the sum of the losses, new stats).
    """
    losses, gradient = [], jax.value_and_grad(share, has_aux=True)
    for step in range(STEPS):
        examples, parts = data.examples(step), []
        for v in range(data.microbatches):
            if (batch := data.microbatch(step, v)) is not None:
                key = np.array(divmod(key_of(0, "microbatch", step, v), 2**32), np.uint32)
                parts.append((len(batch.targets), gradient(params, stats, batch, jax.random.wrap_key_data(key))))
        losses.append(sum(float(loss) for _, ((loss, _), _) in parts) / examples)
        params = jax.tree.map(lambda p, *g: p - RATE * sum(g) / examples, params, *(g for _, (_, g) in parts))
        stats = jax.tree.map(lambda *new: sum(n * s for (n, _), s in zip(parts, new)) / examples,
                             *(new for _, ((_, new), _) in parts))
    return losses, params, stats


KINDS = {"linen": ("flax", linen_model, plain_linen)}
"""name -> (the package, its model, its plain loop)."""
INSTALLED = [kind for kind, (package, *_) in KINDS.items() if importlib.util.find_spec(package)]


def model_of(kind, dtype="float32", **options):
    return KINDS[kind][1](dtype, **options)
