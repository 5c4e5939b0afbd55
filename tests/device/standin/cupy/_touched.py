"""Which device arrays an operation reads and writes, told to ``_races``."""

import ast
import functools
import inspect
import textwrap

import numpy as np
from numpy.lib.array_utils import byte_bounds

from cupy import _races

BY_NUMBER = {"table": "ids"}
"""Of kernels' arguments: an array of which only the rows of some numbers are touched, and where the numbers are."""


def note(result, sources, writes=()):
    """Note an operation. sources: its arguments; they are read, unless NumPy's result is only a view of one.

    writes: arrays that it writes, too.
    """
    arrays = [one for one in _flat(sources) if hasattr(one, "_block")]
    for one in writes:
        _races.writes(one)
    if writes or not _is_view(result, arrays):
        for one in arrays:
            if not any(one is other for other in writes):
                _races.reads(one)


def _flat(sources):
    for one in sources:
        if isinstance(one, (list, tuple)):
            yield from _flat(one)
        else:
            yield one


def _is_view(result, arrays) -> bool:
    first = result[0] if isinstance(result, (tuple, list)) and len(result) else result
    return isinstance(first, np.ndarray) and any(owner_of(one._host) is owner_of(first) for one in arrays)


def owner_of(host):
    """Return the array whose memory a NumPy array is a view of."""
    while isinstance(host.base, np.ndarray):
        host = host.base
    return host


def note_items(array, index, place, value):
    """Note an assignment to items. place: NumPy's index."""
    parts = [one for one in (index if isinstance(index, tuple) else (index,)) if hasattr(one, "_block")]
    for one in (*parts, value):
        if hasattr(one, "_block"):
            _races.reads(one)
    part = array._host if parts else array._host[place]  # a view of what is written
    if not isinstance(part, np.ndarray):
        _races.writes(array)
    elif part.size:
        _races.touch(*byte_bounds(part), True, None, array._block.memory)


def note_kernel(kernel, arguments):
    """Note the launch of a kernel of the project: every array is read, and those that its body assigns to are written."""
    written = written_by(kernel)
    named = dict(zip(kernel.names, arguments))
    for name, one in named.items():
        if not hasattr(one, "_block"):
            continue
        if BY_NUMBER.get(name) in named and name not in written:
            for start, end in _rows(one, named[BY_NUMBER[name]]):
                _races.touch(start, end, False, None, one._block.memory)
            continue
        _races.reads(one)
        if name in written:
            _races.writes(one)


def _rows(table, ids):
    """Yield the addresses of rows, those that follow each other as one."""
    first, size = byte_bounds(table._host)[0], table._host[:1].nbytes
    numbers = np.unique(ids._host)
    ends = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(numbers, ends):
        if run.size:
            yield first + int(run[0]) * size, first + (int(run[-1]) + 1) * size


def written_by(kernel) -> set[str]:
    """Return the arguments that a kernel's body, or its finish, assigns to."""
    if not hasattr(kernel, "_written"):
        functions = [function for function in (kernel.body, kernel.finish) if function is not None]
        names = set().union(*map(assigned, functions))
        # of a kernel for several arrays: x of array 3 is called x3_
        kernel._written = names | {f"{name}{number}_" for name in names for number in range(64)}
    return kernel._written


@functools.cache
def assigned(function) -> frozenset[str]:
    """Return the parameters to whose items a function assigns, itself or by a helper that it calls."""
    function = getattr(function, "py_func", function)
    found = set()
    for node in ast.walk(ast.parse(textwrap.dedent(inspect.getsource(function)))):
        if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store) and isinstance(node.value, ast.Name):
            found.add(node.value.id)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            helper = function.__globals__.get(node.func.id)
            helper = getattr(helper, "py_func", helper)
            if inspect.isfunction(helper):
                names = zip(node.args, inspect.signature(helper).parameters)
                found.update(one.id for one, name in names if isinstance(one, ast.Name) and name in assigned(helper))
    return frozenset(found)
