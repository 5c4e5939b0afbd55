"""One small network as each library writes it: a table, batch norm, dropout; and the plain loop that trains it."""

import importlib.util
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from kernels.random import key_of
from models import Batch
from models.data import Examples
from refimpl.jax import Microbatch

ROWS, STEPS, RATE = 40, 4, 0.3


def data_of(microbatches=8, dtype="float32", **options):
    random = np.random.default_rng(3)
    return Examples(random.integers(0, ROWS, (46, 3)), random.standard_normal(46).astype(dtype), microbatches, 2, 1,
                    **options)


def cast(tree, dtype):
    return jax.tree.map(lambda leaf: leaf.astype(dtype) if jnp.issubdtype(leaf.dtype, jnp.floating) else leaf, tree)


@cache
def linen():
    """Return (network, loss, the function of its first values) of flax's linen."""
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

    inputs = data_of().microbatch(0, 0).inputs
    return net, loss, jax.jit(lambda: net.init(jax.random.key(0), inputs, False))


def linen_model(dtype="float32", **options):
    from refimpl.jax import LinenModel
    _, loss, first = linen()
    return LinenModel(**{"loss": loss, "variables": cast(first(), dtype), **options})


def plain_linen(data, dtype):
    """Return (losses, variable -> value) of a loop without refimpl."""
    net, _, first = linen()
    variables = cast(first(), dtype)

    def share(params, stats, batch, key):
        out, updates = net.apply({"params": params, "batch_stats": stats}, batch.inputs, True, mutable=["batch_stats"],
                                 rngs={"dropout": jax.random.fold_in(key, 0)})
        return ((out - batch.targets) ** 2).sum(), updates["batch_stats"]

    losses, params, stats = plain_loop(share, variables["params"], variables["batch_stats"], data)
    return losses, {"params": params, "batch_stats": stats}


@cache
def nnx_class():
    from flax import nnx

    class Net(nnx.Module):
        def __init__(self, rngs):
            self.words = nnx.Embed(ROWS, 4, rngs=rngs)
            self.hidden, self.out = nnx.Linear(4, 6, rngs=rngs), nnx.Linear(6, 1, rngs=rngs)
            self.norm = nnx.BatchNorm(6, momentum=0.9, rngs=rngs)
            self.dropout = nnx.Dropout(0.5, rngs=rngs)

        def __call__(self, inputs):
            x = self.norm(self.hidden(self.words(inputs).mean(1)))
            return self.out(self.dropout(nnx.tanh(x)))[:, 0]

    return Net


def nnx_module(dtype):
    """Return a new network of flax's nnx."""
    from flax import nnx
    module = nnx_class()(nnx.Rngs(0))
    nnx.update(module, cast(nnx.state(module, nnx.Any(nnx.Param, nnx.BatchStat)), dtype))
    for _, layer in nnx.iter_modules(module):  # each layer computes in a dtype of its own
        if hasattr(layer, "dtype"):
            layer.dtype = None if not isinstance(layer, nnx.Embed) else dtype
    return module


def squared(module, batch):
    return ((module(batch.inputs) - batch.targets) ** 2).sum()


def nnx_model(dtype="float32", **options):
    from refimpl.jax import NnxModel
    return NnxModel(**{"module": nnx_module(dtype), "loss": squared, **options})


def plain_nnx(data, dtype):
    """Return (losses, variable -> value) of a loop without refimpl."""
    from flax import nnx
    graph, params, stats, rest = nnx.split(nnx_module(dtype), nnx.Param, nnx.BatchStat, ...)
    number = [path for path, _ in nnx.to_flat_state(nnx.state(nnx_module(dtype)))].index(("dropout", "rngs", "key"))

    def share(params, stats, batch, key):
        module = nnx.merge(graph, *jax.tree.map(lambda leaf: leaf, (params, stats, rest)))  # of this trace
        module.dropout.rngs.key.set_value(jax.random.fold_in(key, number))
        return squared(module, batch), nnx.state(module, nnx.BatchStat)

    losses, params, stats = plain_loop(share, params, stats, data)
    return losses, {".".join(map(str, path)): leaf.get_value() for state in (params, stats)
                    for path, leaf in nnx.to_flat_state(state)}


@cache
def equinox():
    """Return (network, loss) of equinox."""
    import equinox as eqx

    class Net(eqx.Module):
        words: eqx.nn.Embedding
        hidden: eqx.nn.Linear
        norm: eqx.nn.BatchNorm
        dropout: eqx.nn.Dropout
        out: eqx.nn.Linear

        def __init__(self, key):
            keys = jax.random.split(key, 3)
            self.words = eqx.nn.Embedding(ROWS, 4, key=keys[0])
            self.hidden, self.out = eqx.nn.Linear(4, 6, key=keys[1]), eqx.nn.Linear(6, "scalar", key=keys[2])
            self.norm = eqx.nn.BatchNorm(6, "batch", momentum=0.9, mode="batch")
            self.dropout = eqx.nn.Dropout(0.5)

        def __call__(self, inputs, state, key):
            x = self.hidden(jax.vmap(self.words)(inputs).mean(0))
            x, state = self.norm(x, state)
            return self.out(self.dropout(jnp.tanh(x), key=key)), state

    def loss(module, state, batch):
        run = jax.vmap(module, (0, None, 0), (0, None), axis_name="batch")
        out, state = run(batch.inputs, state, batch.split(len(batch.targets)))
        return ((out - batch.targets) ** 2).sum(), state

    return Net, loss


def equinox_parts(dtype):
    """Return (a new network, its state)."""
    import equinox as eqx
    net, state = eqx.nn.make_with_state(equinox()[0])(jax.random.key(0))
    arrays, static = eqx.partition(net, eqx.is_array)
    return eqx.combine(cast(arrays, dtype), static), cast(state, dtype)


def equinox_model(dtype="float32", **options):
    from refimpl.jax import EquinoxModel
    module, state = equinox_parts(dtype)
    return EquinoxModel(**{"loss": equinox()[1], "module": module, "state": state, **options})


def plain_equinox(data, dtype):
    """Return (losses, (module, state)) of a loop without refimpl."""
    import equinox as eqx
    module, state = equinox_parts(dtype)
    params, static = eqx.partition(module, eqx.is_inexact_array)

    def share(params, state, batch, key):
        return equinox()[1](eqx.combine(params, static), state, Microbatch(batch.inputs, batch.targets, None, {}, key))

    losses, params, state = plain_loop(share, params, state, data)
    return losses, (eqx.combine(params, static), state)


def plain_loop(share, params, stats, data):
    """Return (losses, params, stats) of gradient descent; stats are the mean of the microbatches', by examples.

    share: share(params, stats, batch, key) -> (the sum of the losses, new stats).
    """
    losses, gradient = [], jax.value_and_grad(share, has_aux=True)
    compiled = jax.jit(lambda params, stats, inputs, targets, key: gradient(params, stats, Batch(inputs, targets), key))
    for step in range(STEPS):
        examples, parts = data.examples(step), []
        for v in range(data.microbatches):
            if (batch := data.microbatch(step, v)) is not None:
                key = np.array(divmod(key_of(0, "microbatch", step, v), 2**32), np.uint32)
                found = compiled(params, stats, batch.inputs, batch.targets, jax.random.wrap_key_data(key))
                parts.append((len(batch.targets), jax.device_get(found)))  # NumPy compiles nothing
        losses.append(sum(float(loss) for _, ((loss, _), _) in parts) / examples)
        params = jax.tree.map(lambda p, *g: p - RATE * sum(g) / examples, params, *(g for _, (_, g) in parts))
        stats = jax.tree.map(lambda *new: (sum(n * s for (n, _), s in zip(parts, new)) / examples).astype(new[0].dtype),
                             *(new for _, ((_, new), _) in parts))
    return losses, params, stats


KINDS = {"linen": ("flax", linen_model, plain_linen), "nnx": ("flax", nnx_model, plain_nnx),
         "equinox": ("equinox", equinox_model, plain_equinox)}
"""name -> (the package, its model, its plain loop)."""
INSTALLED = [kind for kind, (package, *_) in KINDS.items() if importlib.util.find_spec(package)]


def model_of(kind, dtype="float32", **options):
    return KINDS[kind][1](dtype, **options)
