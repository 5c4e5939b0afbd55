"""``NnxModel``: a module of flax's nnx, which is not changed, as a model.

    nnx.Param      ─▶ variables; the rows of ``nnx.Embed`` travel
    nnx.BatchStat  ─▶ statistics: after a step the mean of the microbatches', by examples
    nnx.RngState   ─▶ keys of (seed, step, microbatch)
    other types    ─▶ constants
"""

import jax
import jax.numpy as jnp
from flax import nnx

from refimpl.jax.model import JaxModel
from refimpl.jax.parameters import Parts, named, tables_of
from refimpl.jax.rows import PulledRows


class NnxModel(JaxModel):
    """A ``flax.nnx`` module and its loss, as a model for ``train`` or ``Trainer``. Local.

    module: in the mode in which it is trained; an evaluation calls ``eval()`` of a copy.
    loss: loss(module, batch) -> the sum of the losses of a ``Microbatch``'s examples.
    dense: names of embedding tables of which each rank shall have all rows.
    moving: types of ``nnx.Variable`` that the forward pass changes, beside ``nnx.BatchStat``.
    rows, initial, evaluate: see ``JaxModel``; look-ups are recorded unless ``rows`` declares them.
    After a training the module has the learned values. Raises ValueError, which names what cannot be trained here, and
    the remedy (docs/jax.md).
    """

    remedy = "An embedding's table may only be looked up by nnx.Embed, outside of nnx.remat, nnx.scan and nnx.jit: " \
             "leave jit out, as the whole loss is compiled; else make it a dense variable, NnxModel(..., " \
             'dense=["NAME.embedding"])'

    def __init__(self, module, loss, *, rows=None, dense=(), moving=(), initial=None, evaluate=None):
        if not isinstance(module, nnx.Module):
            raise ValueError(f"the module is {module!r:.80}: give NnxModel a flax.nnx.Module, and its loss")
        self.module, (self.graph, state) = module, nnx.split(module)
        self.flat, self.own = {_name(path): (path, v) for path, v in nnx.to_flat_state(state)}, _variables(module)
        leaves, structure = named({name: v.get_value() for name, (_, v) in self.flat.items()
                                   if not isinstance(v, nnx.RngState)})
        tables = [name for path, layer in nnx.iter_modules(module) if isinstance(layer, nnx.Embed)
                  and type(layer).__call__ is nnx.Embed.__call__ and (name := _name((*path, "embedding"))) in leaves]
        changed = self._of_type((nnx.BatchStat, *moving), leaves)
        parts = Parts(leaves, structure, tables_of(tables, rows, dense), changed, tuple(
            name for name in leaves if name not in (*changed, *self._of_type((nnx.Param,), leaves))))
        self._begin(loss, parts, rows, evaluate, initial=initial or {}, dense=dense)

    @property
    def names_to_keep(self) -> list[str]:
        """Variables that the module gets after a training."""
        return [v.name for v in self.variables]

    def keep_learned(self, name, value):
        """Store a learned value in the module. Local. ``train`` calls it at the end."""
        self.own[name].set_value(jnp.asarray(value, self.parts.leaves[name].dtype))

    def learned(self, values):
        """Put learned values into the module, and return it. Local."""
        for name, value in super().learned(values).items():
            self.keep_learned(name, value)
        return self.module

    def trained(self, values):
        """Return the state of ``nnx.Param``, as ``nnx.Optimizer`` gives it; as ``JaxModel.trained``. Local."""
        return nnx.from_flat_state([(path, values.get(name)) for name, (path, v) in self.flat.items()
                                    if isinstance(v, nnx.Param)])

    def _of_type(self, kinds, names) -> tuple:
        return tuple(name for name in names if isinstance(self.flat[name][1], kinds))

    def _called(self, function, tree, batch):
        state = [(path, v.replace(tree[name] if name in tree else _random(v, batch.key, i)))
                 for i, (name, (path, v)) in enumerate(self.flat.items())]
        module = nnx.merge(self.graph, nnx.from_flat_state(state))
        if not batch.training:
            module.eval()
        for _, layer in nnx.iter_modules(module):
            if isinstance(layer, nnx.Embed) and isinstance(layer.embedding.get_value(), PulledRows):
                layer.__class__ = type(type(layer).__name__, (type(layer),), {"__call__": _looked_up})
        result = function(module, batch)
        found = {name: v.get_value() for name, v in _variables(module).items() if name in tree}
        if other := [name for name, value in found.items() if value is not tree[name] and name not in
                     self.parts.moving]:
            raise ValueError(f"the forward pass changes {', '.join(other)}, which would be lost: leave nnx.jit out, as "
                             "the whole loss is compiled; if it is a statistic, say NnxModel(..., moving=["
                             f"{type(self.flat[other[0]][1]).__name__}])")
        return result, batch.state, {name: found[name] for name in self.parts.moving}


def _name(path) -> str:
    return ".".join(map(str, path))


def _variables(module) -> dict:
    """Return name -> the module's own ``nnx.Variable``."""
    return {_name(path): v for path, v in nnx.to_flat_state(nnx.state(module))}


def _random(variable, key, number):
    """Return the value of a random stream's key or count for a microbatch; the module's own in evaluation."""
    value = variable.get_value()
    if key is None or not isinstance(variable, nnx.RngKey):
        return value if key is None else jnp.zeros_like(value)
    key = jax.random.fold_in(key, number)
    return jax.random.split(key, value.shape) if value.shape else key


def _looked_up(layer, inputs, out_sharding=None):
    """Return rows of the ids as ``nnx.Embed`` does."""
    ids = jnp.zeros_like(inputs) if layer.num_embeddings == 1 else inputs
    return layer.embedding.get_value()[ids].astype(layer.dtype)
