"""Aggregation of dense gradients: who was counted, exact sums, cancelling sums, edges."""

import numpy as np

from refimpl.conformance.case import Case, CaseVariable
from refimpl.conformance.cases.numbers import cancelling, exact, integers, provenance

SHAPES = {"weight": (3, 5), "bias": (7,), "scale": ()}


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    yield dense_case("provenance", "rank r contributes 4^r times a code of the place", ranks,
                     lambda r, s: {name: provenance(r, ranks, i, SHAPES[name]) for i, name in enumerate(SHAPES)},
                     settings={"provenance": True})
    names = ["first", "second", "third"]
    yield dense_case("orders", "variables of one shape, produced in another order on each rank", ranks,
                     lambda r, s: {name: provenance(r, ranks, names.index(name), (4,))
                                   for name in names[r % 3:] + names[:r % 3]}, settings={"provenance": True})
    for dtype in ("float32", "float64"):
        cancel = cancelling("cancelling", ranks, (41,), dtype)
        yield dense_case(f"exact-{dtype}", "sums without rounding errors: tolerance zero", ranks,
                         lambda r, s: {name: exact(f"exact{name}{r}", shape, dtype) for name, shape in SHAPES.items()})
        yield dense_case(f"cancelling-{dtype}", "sums that cancel, within γ Σ|x| of the correctly rounded sum", ranks,
                         lambda r, s: {"weight": cancel[r]}, exact=False)
    yield from _awkward(ranks)


def _awkward(ranks):
    """Yield sizes, strides, steps and dtypes that trip implementations up."""
    sizes = {"one": (1,), "ranks-and-one": (ranks + 1,), "below": (max(1, 4 * ranks - 1),), "none": (0,)}
    yield dense_case("tails", "sizes that leave a tail of one element, one too few, or nothing", ranks,
                     lambda r, s: {name: exact(f"tail{name}{r}", shape) for name, shape in sizes.items()})
    yield dense_case("one-element", "a single variable of a single element: fewer elements than ranks", ranks,
                     lambda r, s: {"weight": exact(f"one{r}", (1,))})
    if ranks > 1:
        yield dense_case("absent", "the last rank has no gradient of one variable: None, which counts as 0", ranks,
                         lambda r, s: {name: None if r == ranks - 1 and name == "second" else exact(f"{name}{r}", (5,))
                                       for name in ("first", "second", "third")}, needs=("absent",))
        yield dense_case("absent-later", "the last rank has no gradient of one variable after step 0: what it had then "
                         "does not count again", ranks, lambda r, s: {
                             name: None if s and r == ranks - 1 and name == "second" else exact(f"{name}{r}{s}", (5,))
                             for name in ("first", "second", "third")}, steps=3, needs=("absent",))
    yield dense_case("strided", "arrays that are not contiguous", ranks,
                     lambda r, s: {"columns": exact(f"strided{r}", (4, 10))[:, ::3],
                                   "turned": exact(f"turned{r}", (3, 5)).T,
                                   "backwards": exact(f"back{r}", (9,))[::-1]})
    yield dense_case("steps", "other data each step, one right after the other: no buffer may be used too early", ranks,
                     lambda r, s: {name: exact(f"step{s}{name}{r}", (6,)) for name in ("first", "second")}, steps=3)
    yield dense_case("half-overflow", "float16: the mean is finite, the sum is not", ranks,
                     lambda r, s: {"weight": (integers(f"half{r}", (8,), 56, 60) * 1024).astype("float16")},
                     exact=False, settings={"only": {"dense": ["average"]}})
    counts = 3 * [3, 30, 1, 12, 7, 20, 2, 2, 40, 5]  # more elements than a usual limit has bytes
    yield dense_case("fusion", "many small arrays: fused messages hold as many bytes as the manifest says", ranks,
                     lambda r, s: {f"v{i}": exact(f"fusion{i}{r}", (n,), "float64") for i, n in enumerate(counts)},
                     kind="fusion")


def dense_case(name, about, ranks, make, steps=1, kind="dense", **more) -> Case:
    """Return a case of dense variables of the inputs' shapes and dtype. make(rank, step) -> name -> array."""
    inputs = tuple(tuple(make(r, s) for r in range(ranks)) for s in range(steps))
    variables = tuple(CaseVariable(n, np.shape(a), False, a.dtype.name) for n, a in sorted(inputs[0][0].items()))
    return Case(f"dense/{name}", kind, about, ranks, variables, inputs, **more)
