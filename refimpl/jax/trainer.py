"""``Trainer``: training step by step in your own loop with optax. ``train`` does the same steps by itself.

    trainer = Trainer(model, optax.adamw(0.001), rows=optax.adam(0.001))
    for batch in trainer.shard(data):                     one epoch; a batch of all ranks together
        loss, gradient = trainer.value_and_grad(batch)    of the mean loss, the same on every rank
        trainer.step(gradient)                            the optimizer's step

value_and_grad: pull, forward and backward pass of this rank's microbatches, sums over all ranks; step: the update
"""

import copy
import hashlib
import operator
from contextlib import contextmanager

import jax
import jax.numpy as jnp

from kernels import to_numpy
from kernels.update import OPTIMIZERS
from refimpl.jax.model import JaxModel
from refimpl.jax.optimizers import links_of, optax_options, row_step
from refimpl.training.own_loop import GlobalBatch, OwnLoop, options_of


class JaxTrainer(OwnLoop):
    """A training with your own loop. All ranks make the same calls in the same order; the constructor is local.

    model: a ``JaxModel``, ``LinenModel``, ``NnxModel`` or ``EquinoxModel``.
    optimizer: any ``optax.GradientTransformation``, for the dense parameters. None: that of ``options``; then the bits
    are those of ``train``.
    rows: a transformation for the tables, which ``optax_options`` must accept. It updates only rows that have a
    gradient, and counts the same steps for all rows.
    comm: the communicator of mpi4py with the ranks that train; None: all ranks.
    options: with ``clip_norm``, all gradients are clipped by their common norm, also those for optax.
    params, opt_state: attributes with the dense parameters, as a tree for optax, and the optimizer's state.
    metrics: an attribute with the numbers of the last step, as ``train`` writes them into metrics.jsonl.
    """

    first = "value_and_grad(batch)"

    def __init__(self, model, optimizer=None, *, rows=None, comm=None, options=None):
        if not isinstance(model, JaxModel):
            raise ValueError(f"the model is {model!r:.80}: give a LinenModel, NnxModel, EquinoxModel or JaxModel")
        if optimizer is not None and not (hasattr(optimizer, "init") and hasattr(optimizer, "update")):
            raise ValueError(f"the optimizer is {optimizer!r:.80}: give a transformation of optax, such as "
                             "optax.adamw(0.001), or name one of ours, options=Options(optimizer=...)")
        if optimizer is None and rows is not None:
            raise ValueError("rows are given, and no optimizer of the dense parameters: give both, or name one of ours "
                             "for all, options=Options(optimizer=...)")
        options = options_of(options, None if optimizer is None else "the transformation of optax")
        self.links = {} if optimizer is None else _row_links(model, rows)
        super().__init__(model, [] if optimizer is None else [optimizer], options, comm, {
            name: dict(OPTIMIZERS[row_step(links, 0)[0]].state) for name, links in self.links.items()})
        self.optimizer, self.microbatches, self.params, self.opt_state, self.traced = optimizer, None, None, None, None
        self.shown: list = []  # the leaves of params, which a user may look at only
        self.names = jax.tree.leaves(model.trained({name: name for name in self.dense}))
        if optimizer is not None:
            self.update = jax.jit(self._updated)
            self.traced = self._trace()

    def value_and_grad(self, batch: GlobalBatch) -> tuple:
        """Return (the mean loss over the global batch, its gradient), the same on every rank. Collective.

        loss: a float.  gradient: a tree with the gradient of each dense parameter, and None for each table; ``step``
        uses the gradients of tables without showing them.
        """
        with self._at_work():
            self._compute(batch)
            self.found = self.model.trained({name: jnp.asarray(piece.gradient * piece.gradient.dtype.type(self.scale))
                                             for name, piece in self._pieces().items()})
            self.ready = True
        return self.metrics["loss"], self.found

    def step(self, gradient, **more):
        """Let the optimizer update all parameters. Collective.

        gradient: what ``value_and_grad`` returned, or a tree of this form, the same on every rank.
        more: further arguments of the transformation's ``update``, such as value=loss.
        """
        with self._at_work():
            if not self.ready:
                raise ValueError("step(gradient) has no gradient: call trainer.value_and_grad(batch) before it")
            if not self.optimizers:
                if gradient is not self.found or more:
                    raise ValueError("the optimizer of options takes the gradient that trainer.value_and_grad(batch) "
                                     "has just returned, as it is: to change it, give Trainer a transformation of "
                                     "optax")
                self.params = None
            elif _form(gradient) != _form(self.found):
                raise ValueError("step takes the gradient that trainer.value_and_grad(batch) has returned beside the "
                                 "loss, or a tree of its form and shapes: this is "
                                 f"{jax.tree.map(jnp.shape, gradient)!r:.200}")
            self._move(lambda: self._update(gradient, more))

    def gather(self):
        """Return all values as ``model.load`` does, with whole tables, on every rank. Collective."""
        with self._at_work() as base:
            self._meet("gather()", alike=True)
            whole = {v.name: base.parameters.collect(v.name, None, True, "learned") for v in self.model.variables}
            base.comm.settle()
            return self.model.learned({name: to_numpy(value).copy() for name, value in whole.items()})

    def _updated(self, gradient, state, params, more):
        """Return (parameters, state) after a step, as ``optax.apply_updates`` makes them."""
        updates, state = self.optimizer.update(gradient, state, params, **more)
        return jax.tree.map(lambda p, u: (p + u).astype(p.dtype), params, updates), state

    def _update(self, gradient, more):
        """Update dense parameters by optax, rows and statistics by our kernels. Local."""
        if self.traced is None and not more:
            raise ValueError("this transformation takes more than a gradient: say trainer.step(gradient, value=loss), "
                             "as its update in optax")
        params, self.opt_state = self.update(gradient, self.opt_state, self.params, more)
        values = dict(zip(self.names, jax.tree.leaves(params)))
        for name, piece in self._pieces().items():
            piece.shard.values[...] = values[name]
        self.params = params
        self._move_others({name: row_step(links, self.updates) for name, links in self.links.items()})

    def _trace(self):
        """Return the traced update; None if it needs more than a gradient. Raises ValueError for a forbidden one."""
        shapes = self.model.trained({v.name: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in self.model.variables
                                     if v.name in self.dense})
        try:
            traced = self.update.trace(shapes, jax.eval_shape(self.optimizer.init, shapes), shapes, {})
        except TypeError as problem:
            if "required" not in str(problem):
                raise
            if "value_fn" in str(problem):
                raise ValueError("this transformation computes the loss again within a step: take one that needs only "
                                 "the gradient, for example optax.adamw") from problem
            traced = None
        except AttributeError as problem:
            if "NoneType" not in str(problem) or not self.links:
                raise ValueError("this transformation needs parameters of a form of its own, which the model's are not "
                                 f"({problem}): take one that takes any tree, for example optax.adamw") from problem
            raise ValueError("a mask or labels of this transformation are a function that looks at a table, which is "
                             f"None in the tree of dense parameters ({problem}): give it the tree that the function "
                             "returns for all parameters") from problem
        if self.links and (traced is None or _mixes(traced.jaxpr.jaxpr, len(self.names))):
            tables = list(self.links)
            raise ValueError("this transformation computes with the loss, or with the gradients of several variables "
                             f"at once, and it is not given those of {', '.join(tables)}: clip by "
                             f"Options(clip_norm=...), or make it a dense variable, dense=[{tables[0]!r}]")
        return traced

    def _data(self, data):
        """Return data. Raises ValueError unless they have as many microbatches as the first. Local."""
        if not hasattr(data, "microbatch"):
            raise ValueError(f"the data are {type(data).__name__}: give refimpl.Examples(inputs, targets, "
                             "microbatches=8, size=8), or an object with its methods")
        self.microbatches = self.microbatches or data.microbatches
        if data.microbatches != self.microbatches:
            raise ValueError(f"the data have {data.microbatches} microbatches, earlier data had {self.microbatches}: "
                             "give all data the same number")
        return data

    def _show(self):
        """Set the parameters for optax, and at the start its state. Local."""
        if self.params is None:
            values = self._values()
            self.params = self.model.trained({name: jnp.array(values[name]) for name in self.dense})
        if self.optimizers and self.opt_state is None:
            self.opt_state = self.optimizer.init(self.params)
        self.shown = jax.tree.leaves(self.params)

    @contextmanager
    def _at_work(self):
        with super()._at_work() as base:
            now = jax.tree.leaves(self.params)
            if self.shown and (len(now) != len(self.shown) or any(map(operator.is_not, now, self.shown))):
                raise ValueError("trainer.params was changed outside of the training, which keeps the values: call "
                                 "trainer.step(gradient); load others by trainer.load_state_dict")
            if self.optimizers and self.optimizer is not self.optimizers[0]:
                raise ValueError("trainer.optimizer was replaced, and the update of the first one is compiled: make "
                                 "another Trainer, or change numbers of optax.inject_hyperparams in trainer.opt_state")
            yield base

    def _said(self):
        text = self.traced.lower().as_text() if self.traced else str(jax.tree.structure(self.opt_state))
        return [hashlib.sha256(text.encode()).hexdigest()[:16],
                {name: [row_step(links, step) for step in (0, 1, 100)] for name, links in self.links.items()}]

    def _states(self):
        return jax.tree.map(lambda leaf: leaf, self.opt_state)  # the user may change its dicts

    def _load_states(self, states):
        if _form(states) != _form(self.opt_state):
            raise ValueError("the state belongs to another transformation of optax: make the Trainer with the one with "
                             "which the state was saved")
        self.opt_state, self.params = states, None


def _form(tree) -> tuple:
    """Return the structure of a tree, and its arrays' shapes. Local."""
    return jax.tree.structure(tree), [jnp.shape(leaf) for leaf in jax.tree.leaves(tree)]


def _row_links(model, rows) -> dict:
    """Return table -> the links of a transformation for its rows. Raises ValueError for one that is not known here."""
    tables = copy.copy(model)
    tables.variables = [v for v in model.variables if v.sparse]
    names = {v.name: v.name for v in tables.variables}
    if names and rows is None:
        raise ValueError(f"{', '.join(names)} is a table, whose rows are not on each rank: say Trainer(..., "
                         "rows=optax.adam(0.001)), or another that changes only rows with a gradient; or make it a "
                         f"dense variable, dense=[{next(iter(names))!r}]")
    if not names:
        if rows is not None:
            raise ValueError("rows are given, and the model has no tables: leave rows out")
        return {}
    if optax_options(rows, 3, tables, by_row=True).clip_norm is not None:
        raise ValueError("rows clips by a norm, which is not that of all variables: say Options(clip_norm=...)")
    shapes = {v.name: jax.ShapeDtypeStruct(v.shape, v.dtype) for v in tables.variables}
    return links_of(rows.update, model.trained(shapes), model.trained(names))


def _mixes(jaxpr, count: int) -> bool:
    """Return whether a result of a traced function depends on two of its first ``count`` arguments.

    So it is if an optimizer uses several variables' gradients together, as for a norm of all of them. Local.
    """
    given = [frozenset([i] if i < count else []) for i in range(len(jaxpr.invars))]
    return any(len(found) > 1 for found in _sources(jaxpr, given))


def _sources(jaxpr, given) -> list[frozenset]:
    """Return the arguments that each result depends on. given: what the function's own arguments depend on."""
    known = dict(zip(jaxpr.invars, given))

    def of(atom):
        return frozenset() if hasattr(atom, "val") else known.get(atom, frozenset())  # a literal depends on nothing

    for equation in jaxpr.eqns:
        inputs, inner = [of(atom) for atom in equation.invars], equation.params.get("jaxpr")
        if equation.primitive.name in ("jit", "pjit"):
            found = _sources(inner.jaxpr, inputs)
        else:
            found = [frozenset().union(*inputs)] * len(equation.outvars)
        known |= dict(zip(equation.outvars, found))
    return [of(atom) for atom in jaxpr.outvars]
