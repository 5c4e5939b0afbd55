"""NumPy arrays as JAX arrays, without a copy if aligned to 64 bytes; and checks for reproducible bits."""

from functools import cache
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.experimental.compilation_cache.compilation_cache import reset_cache

from kernels import is_numpy
from models.frameworks.trees import mapped

WIDE = 'say jax.config.update("jax_enable_x64", True) before all else'


class Microbatch(NamedTuple):
    """The arguments of a loss: a microbatch's inputs, targets and weights (or None), JAX arrays or trees of them.

    state: name -> array, carried from step to step within an epoch; a loss that returns (sum, state) replaces it.
    key: a ``jax.random`` key of (seed, step, microbatch), for example for dropout; None in an evaluation.
    metrics: the loss may put sums over the examples here, one for each name in the model's ``metrics``.
    """

    inputs: Any
    targets: Any
    weights: Any
    state: dict[str, Any]
    key: Any
    metrics: Any = None

    @property
    def training(self) -> bool:
        """Whether this is a step of a training, not an evaluation: for ``train=``, or ``deterministic=not``. Local."""
        return self.key is not None

    def rngs(self, *names) -> dict:
        """Return the random keys that ``module.apply(..., rngs=...)`` of flax takes, {} in evaluation. Local."""
        return {name: jax.random.fold_in(self.key, i) for i, name in enumerate(names)} if self.training else {}

    def split(self, count: int):
        """Return keys of so many examples, (count,), for ``jax.vmap``; None in evaluation. Local."""
        return jax.random.split(self.key, count) if self.training else None


@cache
def one_thread():
    """Raise ValueError unless XLA computes with one thread, which is found from how it cuts a large array. Local.

    JAX's cache of compiled programs does not know for how many threads they were cut. Here they get a folder of their
    own in it.
    """
    folder = jax.config.jax_compilation_cache_dir
    _keep_programs_in(None)  # the array may have been cut by another process
    large = jax.jit(jax.numpy.tanh).lower(jax.ShapeDtypeStruct((4096, 1024), "float32"))
    several = "outer_dimension_partitions" in large.compile().as_text()
    _keep_programs_in(f"{folder}/one-thread" if folder and not several else folder)
    if several:
        raise ValueError("JAX has begun to compute with several threads, and their number would change the bits: "
                         "import refimpl.jax before JAX computes anything, or set PJRT_NPROC=1")


def _keep_programs_in(folder: str | None):
    jax.config.update("jax_compilation_cache_dir", folder)
    reset_cache()


def to_jax(tree):
    """Return a tree of NumPy arrays as JAX arrays on the CPU. Do not write to them while they are in use. Local."""
    return jax.device_put(tree, jax.devices("cpu")[0])


def given(batch, draws: bool) -> Microbatch:
    """Return a ``models.Batch`` as a loss gets it, except that its key is two numbers. Local.

    Raises ValueError for values that JAX does not accept, or would silently change.
    """
    key = np.array(divmod(batch.key, 2**32), np.uint32) if draws else None
    parts = (mapped(part, lambda leaf: leaf) for part in (batch.inputs, batch.targets, batch.weights))
    found = Microbatch(*parts, dict(batch.state), key)
    for leaf in jax.tree.leaves(found):
        _check(leaf)
    return found


def with_key(batch: Microbatch) -> Microbatch:
    """Return a microbatch with a JAX key instead of its two numbers, and room for metrics. Local."""
    key = None if batch.key is None else jax.random.wrap_key_data(batch.key, impl="threefry2x32")
    return batch._replace(key=key, metrics={})


def _check(leaf):
    kind = np.asarray(leaf).dtype if is_numpy(leaf) or isinstance(leaf, (bool, int, float, np.generic)) else None
    if kind is None or kind.kind in "OSUMm":
        raise ValueError(f"a batch holds {kind or type(leaf).__name__}: a loss in JAX takes NumPy's arrays of numbers, "
                         "on the CPU (--device cpu); convert it where the data are made")
    if kind.name in ("int64", "uint64") and not jax.config.jax_enable_x64 and np.size(leaf):
        for number in (np.min(leaf), np.max(leaf)):
            if number != number.astype(np.int32):
                raise ValueError(f"a batch holds the whole number {number}, which JAX would cut to 32 bits: {WIDE}")
