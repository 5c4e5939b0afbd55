"""``JaxModel``: a loss and a tree of parameters as a model that trains on any number of ranks.

    tree of parameters ─▶ variables           tables: sparse; what the loss changes: statistics
    rows_needed        ─▶ the results of ``rows`` for a batch, or recorded look-ups
    loss_and_gradients ─▶ jax.value_and_grad of the loss, compiled by jax.jit
    load               ─▶ the tree of learned parameters
"""

import random
import sys
from contextlib import contextmanager
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np

from kernels import RowGradient, is_numpy
from models.frameworks.declared import declared
from models.frameworks.mean import WORDS, is_mean
from models.frameworks.place import line_of
from models.frameworks.trees import examples_in
from refimpl.jax.alone import refuse_other
from refimpl.jax.arrays import given, one_thread, to_jax, with_key
from refimpl.jax.parameters import Parts, as_changed, named, variables_of
from refimpl.jax.rows import NotedRows, PulledRows, Recorder, padded
from refimpl.training.run.checkpoint import read_parameters


class JaxModel:
    """A loss in JAX, as a model for ``train`` or ``Trainer``. Local.

    loss: loss(params, batch) -> 0-d array, the *sum* of the losses of a ``Microbatch``'s examples; or (sum, state).
    parameters: tree of arrays; leaves without values (jax.ShapeDtypeStruct) need ``initial``.
    rows: name of a table -> function of the batch that returns the row numbers which the loss looks up. The function
    gets NumPy arrays. The loss can use the table only by ``params[name][ids]`` (``PulledRows``).
    initial: name -> ``Uniform``, ``Constant``, ...: initial values. By default they are the values of the tree.
    evaluate: evaluate(params, batch) -> {"loss": sum, "count": n[, "correct": k]}, or (that, state); None: the loss.
    In an evaluation tables are whole, and ``batch.key`` is None.
    metrics: an attribute that you may set: names of the numbers that the loss puts into ``batch.metrics``.
    Raises ValueError, which names what cannot be trained here, and the remedy (docs/jax.md).
    """

    remedy = "Layers take whole arrays: leave the table out of rows={...}, so that it is a dense variable, or look " \
             "its rows up in the loss. For tables of flax and equinox take LinenModel, NnxModel or EquinoxModel"
    metrics: tuple | list = ()

    def __init__(self, loss, parameters, *, rows=None, initial=None, evaluate=None):
        leaves, structure = named(parameters)
        self._begin(loss, Parts(leaves, structure, tuple(rows or ())), rows, evaluate, initial=initial or {})

    def _begin(self, loss, parts, rows, evaluate, **names):
        """Set the variables of the parts, and functions that are compiled at their first call.

        names: of variables, further arguments of ``variables_of``.
        """
        if not callable(loss):
            raise ValueError(f"the loss is {loss!r:.80}: give a function loss(params, batch) -> sum of the losses")
        one_thread()
        self.parts, self.rows, self.looked_at, self.counts = parts, dict(rows or {}), False, evaluate is not None
        self.variables = variables_of(parts, rows=self.rows, **names)
        self.shapes = {v.name: v.shape for v in self.variables}
        self.loss, self.gradient = loss, self._gradient_of(loss)
        self.total = jax.jit(self._share_of(loss))
        self.evaluation = jax.jit(self._on_tree(evaluate)) if evaluate else self.total
        self.recorder = Recorder(loss, self._called, parts, [name for name in parts.tables if name not in self.rows])

    def rows_needed(self, batch):
        """Return the rows that the batch looks up: table -> (k,) int64 sorted unique row numbers. Local."""
        if not self.parts.tables:
            return {}
        one, batch.looked_up = given(batch, True), {}
        if self.rows:
            batch.looked_up = declared(lambda _: {name: rows(with_key(one)) for name, rows in self.rows.items()},
                                       self.rows, batch)
        if self.recorder.tables:
            with self._explained():
                batch.looked_up |= self.recorder.rows_needed(one)
        return batch.looked_up

    def loss_and_gradients(self, dense, rows, batch):
        """Return (loss, gradients) of one microbatch (see ``models.Model``). Local."""
        needed = getattr(batch, "looked_up", None) or self.rows_needed(batch)
        ids, values = {}, {}
        for name in self.parts.tables:
            ids[name], values[name] = padded(needed[name], _on_cpu(rows[name]), self.shapes[name][0])
        floats, fixed = self._floats(dense, values), self._fixed(dense)
        arguments = (*to_jax((floats, fixed, ids, given(batch, True))), batch.normaliser)
        looking, self.looked_at = not self.looked_at, True
        if looking:
            self._look(floats, fixed, ids, batch, arguments)
        with self._explained():
            (loss, (state, moved, told)), (by_name, by_row, misses) = self.gradient(*arguments)
        for name, count in misses.items():
            if count:
                raise ValueError(f"the loss looks up {int(count)} rows of {name} that were not declared, or do not "
                                 f"exist: say which a batch needs, {type(self).__name__}(..., rows={{{name!r}: "
                                 "function(batch) -> ids})")
        gradients = {name: np.asarray(value) for name, value in by_name.items()}
        for name, value in by_row.items():
            gradients[name] = RowGradient(needed[name], np.asarray(value)[:len(needed[name])])
        if looking:
            refuse_other(self, loss, gradients, floats[0], arguments[1], needed, rows, arguments[3:])
        share = examples_in(batch) / batch.normaliser
        for name in self.parts.moving:
            gradients[name] = np.asarray(moved.get(name, dense[name]), dense[name].dtype) * share
        batch.metrics = {name: float(value) / batch.normaliser for name, value in told.items()}
        _carry_on(batch, state)
        return float(loss), gradients

    def evaluate(self, dense, tables, batch):
        """Return sums over the batch: {"loss": sum, "count": n[, "correct": k]}, without a random key. Local.

        Without ``evaluate``, n is the number of weights that are not 0, or the length of axis 0.
        """
        names = self.parts.tables
        values = self._floats(dense, {name: _on_cpu(tables[name]) for name in names}), self._fixed(dense)
        with self._explained():
            found, (state, *_) = self.evaluation(*to_jax((*values, dict.fromkeys(names), given(batch, False))))
        _carry_on(batch, state)
        if self.counts:
            return {name: float(value) for name, value in found.items()} if isinstance(found, dict) else found
        return {"loss": float(found), "count": examples_in(batch)}

    def load(self, run):
        """Return the parameters in a run's newest checkpoint, as a tree of NumPy arrays. Local.

        run: its directory, or its ``Result``.
        Raises ValueError or OSError if no checkpoint can be read, or if it has other parameters.
        """
        directory = getattr(run, "run_directory", run)
        if directory is None:
            raise ValueError("the training wrote no files (train was given no output), and a tree of JAX's arrays does "
                             'not change: train with output="runs/mine", then load("runs/mine")')
        found = read_parameters(Path(directory))
        if (shapes := {name: value.shape for name, value in found.items()}) != self.shapes:
            raise ValueError(f"{directory} is a run of other parameters: it has {shapes}, and this model {self.shapes}")
        return self.learned(found)

    def learned(self, values: dict):
        """Return learned values, name -> NumPy array of each variable, as ``load`` does. Local."""
        return self.parts.tree(self._fixed(values) | {v.name: values[v.name] for v in self.variables if
                                                      not v.statistic})

    def trained(self, values: dict):
        """Return the tree of parameters that an optimizer of optax gets: with values by name, None elsewhere. Local."""
        return self.parts.tree(dict.fromkeys(self.parts.leaves) | values)

    def _called(self, function, tree, batch):
        """Return (what function(tree, batch) returns, the state to carry, name -> new value of what it changed)."""
        result = function(tree, batch)
        result, state = result if isinstance(result, tuple) and len(result) == 2 else (result, batch.state)
        if not isinstance(state, dict):
            raise ValueError(f"the loss returned (sum, {type(state).__name__}): what is carried to the next step must "
                             "be a dict, name -> array")
        return result, state, {}

    def _on_tree(self, function):
        """Return function(tree, batch) as one of arrays by name, returning (result, (state, changed, metrics))."""

        def call(floats, fixed, ids, batch):
            dense, values, misses = floats
            tables = {name: PulledRows(name, self.shapes[name], ids[name], values[name], misses[name])
                      for name in values}
            one = with_key(batch)
            result, *more = self._called(function, self.parts.tree(dense | tables | fixed), one)
            return result, (*more, one.metrics)

        return call

    def _share_of(self, loss):
        """Return the loss as a function of arrays by name, returning (loss / normaliser, (state, changed, metrics))."""
        call = self._on_tree(loss)

        def share(floats, fixed, ids, batch, normaliser=1.0):
            total, more = call(floats, fixed, ids, batch)
            return _checked(total) / normaliser, more

        return share

    def _gradient_of(self, loss):
        """Return a function that computes ((loss / normaliser, ...), gradients); it is compiled at its first call."""
        return jax.jit(jax.value_and_grad(self._share_of(loss), has_aux=True))

    def _floats(self, dense, values):
        """Return (dense, rows, misses), the arrays that have gradients."""
        return ({v.name: _on_cpu(dense[v.name]) for v in self.variables if not (v.sparse or v.statistic)}, values,
                {v.name: np.zeros((), v.dtype) for v in self.variables if v.sparse})

    def _fixed(self, dense) -> dict:
        """Return name -> array of what has no gradient: constants, and the statistics of the step."""
        return self.parts.fixed | {name: as_changed(name, _on_cpu(dense[name]), self.parts.leaves[name].dtype)
                                   for name in self.parts.moving}

    @contextmanager
    def _explained(self):
        """Turn errors of JAX and Python from the loss into ValueErrors with a remedy, within a context."""
        ours = [sys.modules[kind.__module__] for kind in type(self).__mro__[:-1]]
        try:
            yield
        except (jax.errors.JAXTypeError, jax.errors.JAXIndexError) as problem:
            raise ValueError("the loss cannot be compiled (jax.jit), because it branches on values, at "
                             f"{line_of(problem, jax, *ours)}: choose by jnp.where or jax.lax.cond, and compute with "
                             "jnp in place of np") from problem
        except (TypeError, AttributeError) as problem:
            if not any(kind.__name__ in str(problem) for kind in (PulledRows, NotedRows)):
                raise
            raise ValueError("a table is used otherwise than by params[NAME][ids], at "
                             f"{line_of(problem, jax, *ours)}: a rank has only the rows that it looks up. "
                             f"{self.remedy}") from problem

    def _look(self, floats, fixed, ids, batch, arguments):
        """Raise ValueError if the loss does more than return a sum. It is checked once."""

        def total(one):
            try:
                return float(self.total(*to_jax((floats, fixed, ids, given(one, False))))[0])
            except Exception:  # it needs a key
                return float(self.total(*to_jax((floats, fixed, ids, given(one, True))))[0])

        before = _drawn()
        with self._explained():
            traced = self.gradient.trace(*arguments)
            again = self._gradient_of(self.loss).trace(*arguments)
        if _drawn() != before:
            raise ValueError("the loss draws from NumPy's (np.random) or Python's (random) numbers, but only when it "
                             "is compiled: they would be the same in every step, and differ between ranks. Draw by "
                             "jax.random and batch.key")
        if effects := traced.jaxpr.effects:
            raise ValueError(f"the loss has side effects ({', '.join(map(str, effects))}), for other microbatches "
                             "on each rank: leave callbacks and prints out")
        if traced.lower().as_text() != again.lower().as_text():
            raise ValueError("the loss gives another computation each time it is compiled: it draws from a generator "
                             "of its own, or depends on something that changes. Each rank would keep other numbers for "
                             "the whole training. Draw by jax.random and batch.key")
        if is_mean(total, batch):
            raise ValueError(f"{WORDS}jnp.sum in place of jnp.mean")


def _drawn() -> tuple:
    """Return the state of NumPy's and Python's global random numbers. Local."""
    numpys = np.random.get_state()
    return numpys[1].tobytes(), numpys[2:], random.getstate()


def _on_cpu(value):
    """Return a value. Raises ValueError for one on a GPU."""
    if not is_numpy(value):
        raise ValueError("refimpl.jax computes on the CPU: train with --device cpu")
    return value


def _checked(total):
    """Return the value of a loss. Raises ValueError unless it is one real number."""
    if not isinstance(total, jax.Array) or total.ndim or not jnp.issubdtype(total.dtype, jnp.floating):
        told = f"an array of {total.dtype} {total.shape}" if isinstance(total, jax.Array) else type(total).__name__
        raise ValueError(f"the loss is {told}: it must be the sum over the microbatch's examples, a float of shape ()")
    return total


def _carry_on(batch, state):
    """Copy the state that a loss returned into the batch."""
    batch.state.clear()
    batch.state.update({name: np.asarray(value) for name, value in state.items()})
