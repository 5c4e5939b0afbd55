"""``LinenModel``: a loss that applies a module of flax's linen, which is not changed, as a model.

    params                  ─▶ variables; the rows of ``nn.Embed`` travel
    batch_stats             ─▶ statistics: after a step the mean of the microbatches', by examples
    other collections       ─▶ constants
"""

import flax.linen as nn
import jax

from refimpl.jax.model import JaxModel
from refimpl.jax.parameters import Parts, named, tables_of
from refimpl.jax.rows import PulledRows


class LinenModel(JaxModel):
    """A loss and the variables of a ``flax.linen`` module, as a model for ``train`` or ``Trainer``. Local.

    loss: loss(variables, batch) -> the sum of the losses, or (sum, updates), updates as ``module.apply`` returns them
    for ``mutable``.
    variables: what ``module.init`` returns.
    dense: names of embedding tables of which each rank shall have all rows.
    moving: names of collections that the loss changes; see docs/jax.md.
    rows, initial, evaluate: see ``JaxModel``; evaluate may return (counts, updates). The look-ups of ``nn.Embed`` are
    recorded unless ``rows`` declares them.
    Raises ValueError, which names what cannot be trained here, and the remedy (docs/jax.md).
    """

    remedy = "An embedding's table may only be looked up by nn.Embed, outside of nn.remat, nn.scan and jax.jit: " \
             "leave jit out, as the whole loss is compiled; else make it a dense variable, LinenModel(..., " \
             'dense=["params.NAME.embedding"])'

    def __init__(self, loss, variables, *, rows=None, dense=(), moving=("batch_stats",), initial=None, evaluate=None):
        if not isinstance(variables, dict) or "params" not in variables:
            raise ValueError(f"the variables are {type(variables).__name__}: give what module.init(key, ...) returns, "
                             'a dict with the collection "params"')
        if unknown := sorted(set(moving) - set(variables) - {"batch_stats"}):
            raise ValueError(f"moving names {', '.join(unknown)}, which is no collection; there are "
                             f"{', '.join(variables)}")
        leaves, structure = named(variables)
        self.collection = {name: name.partition(".")[0] for name in leaves}
        tables = [name for name in leaves if _is_embedding(name, leaves)]
        parts = Parts(leaves, structure, tables_of(tables, rows, dense),
                      tuple(name for name, kind in self.collection.items() if kind in moving),
                      tuple(name for name, kind in self.collection.items() if kind not in ("params", *moving)))
        self._begin(loss, parts, rows, evaluate, initial=initial or {}, dense=dense)

    def trained(self, values):
        """Return the collection ``params``; as ``JaxModel.trained``. Local."""
        return super().trained(values)["params"]

    def _called(self, function, tree, batch):
        with nn.intercept_methods(_looked_up):
            result = function(tree, batch)
        result, updates = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        moved = named(updates)[0] if jax.tree.leaves(updates) else {}
        if other := sorted({name.partition(".")[0] for name in moved if name not in self.parts.moving}):
            raise ValueError(f"the loss returned updates of {', '.join(other)}, and its changes would be lost: say "
                             f"LinenModel(..., moving=[...]) if it is a collection of variables, which are "
                             f"{', '.join(sorted(set(self.collection.values())))}; else leave it out of what the loss "
                             "returns")
        return result, batch.state, moved


def _is_embedding(name, leaves) -> bool:
    """Return whether an array is the table of an ``nn.Embed``: one of two axes, alone in its layer."""
    layer, _, leaf = name.rpartition(".")
    return leaf == "embedding" and name.startswith("params.") and len(leaves[name].shape) == 2 and not any(
        other != name and other.startswith(f"{layer}.") for other in leaves)


def _looked_up(following, args, kwargs, context):
    """Answer a look-up of ``nn.Embed`` whose table is here by rows; an interceptor of ``nn.intercept_methods``."""
    layer = context.module
    if not (isinstance(layer, nn.Embed) and context.method_name == "__call__"
            and isinstance(table := layer.embedding, PulledRows)):
        return following(*args, **kwargs)
    ids = args[0] if args else kwargs["inputs"]
    ids = jax.numpy.zeros_like(ids) if layer.num_embeddings == 1 else ids  # flax then ignores them
    return table[ids].astype(layer.dtype or table.dtype)
