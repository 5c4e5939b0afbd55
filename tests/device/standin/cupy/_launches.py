"""What a call of CuPy asks of a GPU: at least so many launches, by kind. From CuPy 14's sources, for arrays with elements.

A view is no launch. A product copies an operand whose rows and columns both have gaps, and goes through memory of its
own where ``out`` has gaps (cupy._core._routines_linalg).
"""

import numpy as np

from cupy import standin

PRODUCTS = {"matmul", "__matmul__", "__rmatmul__", "dot", "tensordot", "inner", "outer", "vdot"}
REDUCTIONS = {"all", "any", "amax", "amin", "max", "min", "sum", "mean", "prod", "argmax", "argmin", "count_nonzero",
              "nansum", "reduce"}
SORTS = {"argsort": 5, "sort": 4, "cumsum": 2, "cumprod": 2, "accumulate": 2, "unique": 12, "searchsorted": 1,
         "lexsort": 8, "nonzero": 3, "flatnonzero": 3}
FILLS = {"zeros", "zeros_like", "ones", "ones_like", "full", "full_like", "arange", "eye", "identity", "fill",
         "linspace"}
COPIES = {"copy", "ascontiguousarray", "concatenate", "stack", "hstack", "vstack", "astype", "flatten", "ravel",
          "reshape", "copyto", "repeat", "tile", "array"}
INDEXING = {"take", "choose", "compress", "put", "where", "take_along_axis"}
MORE = {"pad": 5, "einsum": 3, "std": 3, "var": 3, "roll": 2, "mean": 1, "diff": 1}


def note(name, given, result):
    """Remember what a function or method of arrays asked for. given: NumPy's arguments.  result: NumPy's."""
    if name.startswith("empty") or not _is_new(result, given):
        return
    if name in PRODUCTS:
        note_product([one for one in given if isinstance(one, np.ndarray)], result)
        return
    for kind, names in (("reduction", REDUCTIONS), ("sort", SORTS), ("fill", FILLS), ("copy", COPIES),
                        ("index", INDEXING)):
        if name in names:
            break
    else:
        kind = "elementwise"
    for _ in range(MORE.get(name, SORTS.get(name, 1))):
        standin.launched(kind, name.strip("_"))


def note_product(arrays, out):
    """Remember a product, and the copies around it. arrays: its factors, and ``out`` where one is given."""
    for one in arrays:
        if not _is_whole(one):
            standin.launched("copy", "around a product")
    standin.launched("product", "x".join(map(str, np.shape(out))))


def _is_whole(array):
    return array.flags.c_contiguous or array.flags.f_contiguous


def _is_new(result, given):
    """Whether there are elements that were computed: not a view, not a description."""
    if isinstance(result, (tuple, list)):
        return any(_is_new(one, given) for one in result)
    if not isinstance(result, (np.ndarray, np.generic)) or not result.size:
        return False
    if isinstance(result, np.generic):
        return True
    outputs = [one for one in given if one is result]  # out=
    return bool(outputs) or not any(isinstance(one, np.ndarray) and np.may_share_memory(one, result) for one in given)
