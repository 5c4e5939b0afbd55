"""Small losses with all that a loss can have: tables, some drawn rows, dropout, a carried state; float32 or float64."""

from dataclasses import replace
from functools import cache

import jax
import jax.numpy as jnp
import numpy as np

from models import Batch
from models.data import Examples
from refimpl.jax import JaxModel

ROWS, WIDTH, WORDS, DRAWN = 40, 4, 50, 5


def arrays(dtype, **shapes):
    """Return arrays of such shapes that are the same whenever they are made."""
    random = np.random.default_rng(5)
    return {name: random.standard_normal(shape).astype(dtype) for name, shape in shapes.items()}


def squared(params, batch):
    """Rate items, each by an id, three ids of tags, and two numbers."""
    ids, numbers = batch.inputs[:, :4].astype(int), batch.inputs[:, 4:]
    x = jnp.concatenate([params["items"][ids[:, 0]], params["tags"][ids[:, 1:]].sum(1), numbers], 1)
    x = jnp.tanh(x @ params["hidden"]["w"] + params["hidden"]["b"])
    if batch.key is not None:
        x = x * jax.random.bernoulli(batch.key, 0.75, x.shape) / 0.75
    return ((x @ params["out"] - batch.targets) ** 2).sum()


def drawn(key):
    return jax.random.randint(key, (DRAWN,), 0, WORDS)


def next_words(params, batch):
    """The next word of texts that go on from step to step, (time, streams), against drawn ones; in evaluation all."""
    def step(h, x):
        h = jnp.tanh(x + h @ params["w"])
        return h, h

    x = params["words"][batch.inputs]
    h, states = jax.lax.scan(step, batch.state.get("h", jnp.zeros_like(x[0])), x)
    own = (states * params["out"][batch.targets]).sum(-1)
    others = states @ params["out"][jnp.arange(WORDS) if batch.key is None else drawn(batch.key)].T
    losses = jax.nn.logsumexp(jnp.concatenate([own[..., None], others], -1), -1) - own
    return (losses if batch.weights is None else losses * batch.weights).sum(), {"h": h}


def counted(params, batch):
    loss, state = next_words(params, batch)
    return {"loss": loss, "count": batch.targets.size if batch.weights is None else batch.weights.sum()}, state


def model_of(name, dtype="float32", dense=False, **options):
    if name == "rated":
        made = arrays(dtype, items=(ROWS, WIDTH), tags=(ROWS, WIDTH), w=(2 * WIDTH + 2, 5), b=(5,), out=(5,))
        params = {"hidden": {n: made.pop(n) for n in "wb"}, **made}
        rows = {"items": lambda batch: batch.inputs[:, 0].astype(int),
                "tags": lambda batch: batch.inputs[:, 1:4].astype(int)}
        return JaxModel(**{"loss": squared, "parameters": params, "rows": {} if dense else rows, **options})
    rows = {"words": lambda batch: batch.inputs, "out": lambda batch: np.append(batch.targets, drawn(batch.key))}
    params = arrays(dtype, words=(WORDS, WIDTH), out=(WORDS, WIDTH), w=(WIDTH, WIDTH))
    return JaxModel(**{"loss": next_words, "parameters": params, "rows": rows, "evaluate": counted, **options})


@cache
def ready(name, dtype="float32"):
    """Return a model that is compiled once for all tests of a process."""
    return model_of(name, dtype)


def data_of(microbatches=8, size=2, dtype="float32", **options):
    random = np.random.default_rng(3)
    inputs = np.concatenate([random.integers(0, ROWS, (46, 4)), random.standard_normal((46, 2))], 1)
    return Examples(inputs.astype(dtype), random.standard_normal(46).astype(dtype), microbatches, size, 1, **options)


def batch_of(size=11, key=7, dtype="float32", **changes) -> Batch:
    """Return a microbatch as a trainer gives it."""
    return replace(data_of(1, size, dtype).microbatch(0, 0), key=key, **changes)
