"""Check what the parts of a ``models.protocol.Sharded`` return. Errors are the same however its layers are cut."""

from collections.abc import Mapping

from kernels.arrays import array_module


def features_of(model, found, like):
    """Return (x, targets, saved), the result of ``features``, with contiguous x. Local.

    found: the result.  like: the weight of the layer whose input is x, (outputs, inputs).
    Raises ValueError if the result is invalid.
    """
    name = f"{type(model).__name__}.features"
    if not isinstance(found, (tuple, list)) or len(found) != 3:
        raise ValueError(f"{name} returned {type(found).__name__}: it must return three things, what enters the first "
                         "connected layer, the targets, and what features_backward wants")
    x, targets, saved = found
    _check_matrix(f"the x that {name} returned", x, like, (None, like.shape[1]))
    return array_module(x).ascontiguousarray(x), targets, saved


def loss_of(model, found, logits):
    """Return (loss, gradient of the logits), the result of ``loss``. Local. Raises ValueError if it is invalid."""
    name = f"{type(model).__name__}.loss"
    if not isinstance(found, (tuple, list)) or len(found) != 2:
        raise ValueError(f"{name} returned {type(found).__name__}: it must return two things, the loss and the "
                         "gradient of the logits")
    _check_matrix(f"the gradient of the logits that {name} returned", found[1], logits, logits.shape)
    return found


def gradients_of(model, found):
    """Return the dict that ``features_backward`` returned. Local. Raises ValueError if it is invalid."""
    name = f"{type(model).__name__}.features_backward"
    if not isinstance(found, Mapping):
        raise ValueError(f"{name} returned {type(found).__name__}: it must return a dict, name of each variable that "
                         "is no connected layer's -> its gradient; {} if there is none")
    own = {v.name for v in model.variables}.difference(*(layer.names for layer in model.connected))
    if wrong := sorted(own ^ set(found), key=str):
        raise ValueError(f"{name} returned the wrong set of gradients, which differs in {wrong}: it must return those "
                         f"of {sorted(own) or 'no variable'}, which do not belong to connected layers")
    return found


def _check_matrix(what, array, like, shape):
    """Raise ValueError unless ``array`` is a matrix of this shape (None: any size), with like's dtype and device."""
    fits = (hasattr(array, "dtype") and type(array).__module__ == type(like).__module__ and array.dtype == like.dtype
            and len(array.shape) == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape)))
    if not fits:
        wanted = ", ".join("n" if n is None else str(n) for n in shape)
        raise ValueError(f"{what} is {_told(array)}: it must be {like.dtype} ({wanted}), an array on the device")


def _told(thing) -> str:
    name = f"{type(thing).__module__}.{type(thing).__name__}"
    return f"{thing.dtype} {thing.shape} ({name})" if hasattr(thing, "dtype") else name
