"""Checks of single answers of a model: row numbers, a number, a gradient. Each raises ValueError. Local."""

from collections.abc import Mapping

import numpy as np

from kernels import RowGradient
from models import Variable
from refimpl.training.step.scalars import lies_there

DTYPES = ("float32", "float64")
MASKED = ", with zeros where it is masked: gradient.filled(0)"


def check_variables(variables):
    """Raise ValueError unless all variables have a supported dtype.

    In float16 sums of gradients would overflow although their mean does not, and the kernels exist only for DTYPES.
    """
    if not isinstance(variables, (list, tuple)) or not all(isinstance(v, Variable) for v in variables):
        raise ValueError(f"the model's variables are {variables!r:.80}; they must be a list of Variable")
    for variable in variables:
        if variable.dtype not in DTYPES:
            raise ValueError(f"variable {variable.name!r} is {variable.dtype}: trainings are of {' or '.join(DTYPES)}; "
                             "give the model one of these as its dtype")


def check_needs(variables, needs):
    """Raise ValueError unless ``needs`` has sorted unique row numbers of each sparse variable, and nothing else."""
    sparse = {v.name: v for v in variables if v.sparse}
    if not isinstance(needs, Mapping):
        raise ValueError(f"rows_needed returned {type(needs).__name__}: it must return a dict, name of each sparse "
                         "variable -> row numbers; {} if there is none")
    if set(needs) != set(sparse):
        raise ValueError(f"rows_needed returned {sorted(needs, key=str)}; the sparse variables are {sorted(sparse)}")
    for name, ids in needs.items():
        _check_ids(f"rows_needed of {name!r}", ids, sparse[name])


def check_number(what: str, number):
    """Raise ValueError unless it is one real number: of Python or NumPy, or an array without axes.

    Whether it is finite is checked later, because a check on a GPU waits.
    """
    if isinstance(number, (int, float, np.integer, np.floating)) and not isinstance(number, bool):
        return
    is_array = _is_plain_array(number)
    if is_array and number.shape == () and number.dtype.kind in "iuf":
        return
    told = f"an array of {number.dtype} {number.shape}" if is_array else type(number).__name__
    raise ValueError(f"{what} is {told}: it must be one real number, such as float(x), or an array's sum()")


def check_names(names, gradients):
    """Raise ValueError unless there is a gradient for every variable, and no other."""
    if set(gradients) != set(names):
        raise ValueError("loss_and_gradients returned the wrong set of gradients, which differs in "
                         f"{sorted(set(gradients) ^ set(names), key=str)}; the variables are {sorted(names)}")


def values_of(variable, gradient, needed=None):
    """Return the array of a variable's gradient. Raises ValueError for a wrong kind, shape or dtype.

    needed: the row numbers that ``check_needs`` has checked, or None.
    """
    name = variable.name
    if variable.sparse != isinstance(gradient, RowGradient):
        kind = "a RowGradient" if variable.sparse else "an array"
        raise ValueError(f"the gradient of {name!r} must be {kind}, it is {type(gradient).__name__}")
    if variable.sparse and gradient.ids is not needed:
        _check_ids(f"the ids of the gradient of {name!r}", gradient.ids, variable)
    values = gradient.rows if variable.sparse else gradient
    shape = (len(gradient), *variable.shape[1:]) if variable.sparse else variable.shape
    if not _is_plain_array(values) and not isinstance(values, np.generic):
        raise ValueError(f"the gradient of {name!r} is {type(values).__name__}: it must be a plain array: "
                         f"np.asarray(gradient, {variable.dtype!r}){MASKED if np.ma.isMaskedArray(values) else ''}")
    if values.shape != shape or values.dtype != variable.dtype:
        raise ValueError(f"the gradient of {name!r} is {values.dtype} {values.shape}, not {variable.dtype} {shape}")
    return values


def check_asked_for(name, ids, needed):
    """Raise ValueError unless all row numbers are among those needed. Both are sorted and unique.

    A gradient of another row was computed without the row's value. And α, hot rows and pulled bytes follow from
    ``needs``.
    """
    if ids is needed or len(ids) == len(needed) and (ids == needed).all():
        return
    absent = ids if not len(needed) else ids[needed.take(needed.searchsorted(ids), mode="clip") != ids]
    if len(absent):
        raise ValueError(f"the gradient of {name!r} has row {absent[0]}, which rows_needed did not name: let it return "
                         "every row that the microbatch touches")


def _check_ids(what, ids, variable):
    """Raise ValueError unless ``ids`` are sorted unique row numbers of the variable."""
    if type(ids) is not np.ndarray or ids.dtype != np.int64 or ids.ndim != 1:
        raise ValueError(f"{what} must be a (k,) int64 array of row numbers")
    if ids.size == 0:
        return
    if (ids[1:] <= ids[:-1]).any():
        raise ValueError(f"{what} must be sorted and unique: use np.unique, and for a gradient aggregate_rows")
    rows = variable.shape[0]
    for bad in (int(ids[0]), int(ids[-1])):
        if not 0 <= bad < rows:
            raise ValueError(f"id {bad} is out of range for variable {variable.name!r}, which has {rows} rows "
                             f"(0 to {rows - 1})")


def _is_plain_array(array) -> bool:
    """Return whether it is an array of NumPy or of a GPU. Subclasses (np.ma, np.matrix) may compute differently."""
    return type(array) is np.ndarray or lies_there(array)
