"""``EquinoxModel``: a module of equinox, which is not changed, as a model.

    floating arrays    ─▶ variables; the rows of ``eqx.nn.Embedding`` travel
    ``eqx.nn.State``   ─▶ statistics: after a step the mean of the microbatches', by examples
    other arrays       ─▶ constants
"""

import equinox as eqx
import jax

from refimpl.jax.model import JaxModel
from refimpl.jax.parameters import Parts, named, tables_of


class EquinoxModel(JaxModel):
    """An equinox module, its state and its loss, as a model for ``train`` or ``Trainer``. Local.

    loss: loss(module, batch) -> the sum of the losses of a ``Microbatch``'s examples; with a state
    loss(module, state, batch) -> (sum, the new state).
    state: the state that ``eqx.nn.make_with_state`` returns; None: the module has none.
    trained: a filter_spec as for ``eqx.partition``, which selects what is trained; other arrays are constants.
    dense: names of embedding tables of which each rank shall have all rows.
    rows, initial, evaluate: see ``JaxModel``; evaluate has the arguments of the loss. Look-ups are recorded unless
    ``rows`` declares them. In evaluation the module is in ``eqx.nn.inference_mode``.
    Raises ValueError, which names what cannot be trained here, and the remedy (docs/jax.md).
    """

    remedy = "An embedding's table may only be looked up by eqx.nn.Embedding, outside of eqx.filter_checkpoint and " \
             'scans over layers: else make it a dense variable, EquinoxModel(..., dense=["NAME.weight"])'

    def __init__(self, loss, module, state=None, *, trained=eqx.is_inexact_array, rows=None, dense=(), initial=None,
                 evaluate=None):
        if not isinstance(module, eqx.Module):
            raise ValueError(f"the module is {module!r:.80}: give EquinoxModel a loss and an equinox.Module")
        arrays, self.static = eqx.partition(module, eqx.is_array)
        (own, self.structure), self.state = named(arrays), None
        moving = {}
        if state is not None:
            moving, self.state = named(state)
            moving = {f"state.{name}": leaf for name, leaf in moving.items()}
        self.names, self.moving = list(own), list(moving)
        leaves, structure = named(own | moving)
        taken = named(eqx.filter(arrays, trained))[0]
        parts = Parts(leaves, structure, tables_of([name for name in _tables(module) if name in taken], rows, dense),
                      tuple(moving), tuple(name for name in own if name not in taken))
        self._begin(loss, parts, rows, evaluate, initial=initial or {}, dense=dense)

    def learned(self, values):
        """Return learned values as the module, or (module, state). Local."""
        module, *state = self._given(jax.tree.map(jax.numpy.asarray, super().learned(values)))
        return (module, *state) if state else module

    def trained(self, values):
        """Return the module's arrays, as ``eqx.filter`` does; as ``JaxModel.trained``. Local."""
        return jax.tree.unflatten(self.structure, [values.get(name) for name in self.names])

    def _given(self, values) -> tuple:
        """Return (module, state), or (module,), with these values: name -> array or table."""
        arrays = jax.tree.unflatten(self.structure, [values[name] for name in self.names])
        module = eqx.combine(arrays, self.static)
        return (module,) if self.state is None else (
            module, jax.tree.unflatten(self.state, [values[name] for name in self.moving]))

    def _called(self, function, tree, batch):
        module, *state = self._given(tree)
        result = function(module if batch.training else eqx.nn.inference_mode(module), *state, batch)
        if not state:
            return result, batch.state, {}
        if not (isinstance(result, tuple) and len(result) == 2 and isinstance(result[1], eqx.nn.State)):
            if batch.training or isinstance(result, tuple):
                raise ValueError(f"the loss returned {type(result).__name__}: a module with a state needs (the sum of "
                                 "the losses, the new state)")
            return result, batch.state, {}
        return result[0], batch.state, {f"state.{name}": leaf for name, leaf in named(result[1])[0].items()}


def _tables(module) -> list[str]:
    """Return the names of the weights of ``eqx.nn.Embedding`` layers."""
    found, _ = jax.tree_util.tree_flatten_with_path(module, is_leaf=lambda x: isinstance(x, eqx.nn.Embedding))
    return [jax.tree_util.keystr((*path, jax.tree_util.GetAttrKey("weight")), simple=True, separator=".")
            for path, leaf in found if isinstance(leaf, eqx.nn.Embedding)]
