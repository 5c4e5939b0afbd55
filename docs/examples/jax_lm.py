"""A language model of JAX, trained by refimpl: on any number of ranks to the same bits.

    mpirun -n 4 python docs/examples/jax_lm.py [steps]
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np

from refimpl import Examples, Options, Uniform, train
from refimpl.jax import JaxModel

VOCABULARY, WIDTH, SAMPLES = 50_000, 128, 512


def text(windows=4096, length=20, vocabulary=VOCABULARY):
    """Return windows of a made-up text in which half of all words follow from the word before: inputs, targets."""
    drawn = np.random.default_rng(1)
    words = (vocabulary * drawn.random((windows, length + 1)) ** 4).astype(np.int64)  # few are frequent
    follows = drawn.random((windows, length)) < 0.5
    for t in range(length):
        words[:, t + 1] = np.where(follows[:, t], (7 * words[:, t] + 1) % vocabulary, words[:, t + 1])
    return words[:, :-1], words[:, 1:]


def drawn(params, key):
    """Return the numbers of the words that the true ones are told from: as many for the rows as for the loss."""
    return jax.random.randint(key, (SAMPLES,), 0, params["out"].shape[0])


def loss(params, batch):
    """Return the sum of the losses of all words: of both tables few rows are used."""
    def step(h, x):
        h = jnp.tanh(x + h @ params["w"])
        return h, h

    x = params["words"][batch.inputs].swapaxes(0, 1)
    states = jax.lax.scan(step, jnp.zeros_like(x[0]), x)[1].swapaxes(0, 1).reshape(-1, x.shape[-1])
    targets, others = batch.targets.reshape(-1), drawn(params, batch.key)
    own = (states * params["out"][targets]).sum(1)
    scores = jnp.where(targets[:, None] == others, -jnp.inf, states @ params["out"][others].T)
    return (jnp.logaddexp(own, jax.nn.logsumexp(scores, 1)) - own).sum()


def main(steps, data=None, vocabulary=VOCABULARY, comm=None):
    """Train for so many steps; return what it ended with. Collective."""
    table = jax.ShapeDtypeStruct((vocabulary, WIDTH), "float32")  # no rank needs all of it
    params = {"words": table, "out": table, "w": np.eye(WIDTH, dtype="float32") / 2}
    model = JaxModel(loss, params, initial={"words": Uniform(1.0), "out": Uniform(0.1)},
                     rows={"words": lambda batch: batch.inputs,
                           "out": lambda batch: np.append(batch.targets, drawn(params, batch.key))})
    data = Examples(*(data or text(vocabulary=vocabulary)), microbatches=8, size=16)
    options = Options(optimizer="adagrad", learning_rate=0.2, steps=steps)
    return train(model, data, options=options, comm=comm, progress=tell)


def tell(record):
    if record["step"] % 10 == 0:
        print(f"step {record['step']}  loss {record['loss']:.4f}", flush=True)


if __name__ == "__main__":
    result = main(int(sys.argv[1]) if len(sys.argv) > 1 else 100)
    if result.rank == 0:
        print(f"{result.examples_per_second:.0f} examples/s, parameters sha256 {result.parameters_sha256[:12]}…")
