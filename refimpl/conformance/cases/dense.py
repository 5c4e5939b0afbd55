"""Aggregation of dense gradients: who was counted, exact sums, cancelling sums, edges."""

import numpy as np

from refimpl.conformance.case import Case, Variable
from refimpl.conformance.cases.numbers import cancelling, exact, integers, provenance

SHAPES = {"weight": (3, 5), "bias": (7,), "scale": ()}


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    everyone = range(ranks)
    yield dense_case("provenance", "rank r contributes 4^r times a code of the place", ranks,
                     [[{name: provenance(r, ranks, i, shape) for i, (name, shape) in enumerate(SHAPES.items())}
                       for r in everyone]], settings={"provenance": True})
    names = ["first", "second", "third"]
    turned = [names[r % 3:] + names[:r % 3] for r in everyone]
    yield dense_case("orders", "variables of one shape, produced in another order on each rank", ranks,
                     [[{name: provenance(r, ranks, names.index(name), (4,)) for name in turned[r]} for r in everyone]],
                     settings={"provenance": True})
    for dtype in ("float32", "float64"):
        yield dense_case(f"exact-{dtype}", "sums without rounding errors: tolerance zero", ranks,
                         [[{name: exact(f"exact{name}{r}", shape, dtype) for name, shape in SHAPES.items()}
                           for r in everyone]], dtype)
        yield dense_case(f"cancelling-{dtype}", "sums that cancel, within γ Σ|x| of the correctly rounded sum", ranks,
                         [[{"weight": array} for array in cancelling("cancelling", ranks, (41,), dtype)]], dtype,
                         exact=False)
    yield from _awkward(ranks)


def _awkward(ranks):
    """Yield sizes, strides, steps and dtypes that trip implementations up."""
    everyone = range(ranks)
    sizes = {"one": (1,), "ranks-and-one": (ranks + 1,), "below": (max(1, 4 * ranks - 1),), "none": (0,)}
    yield dense_case("tails", "sizes that leave a tail of one element, one too few, or nothing", ranks,
                     [[{name: exact(f"tail{name}{r}", shape) for name, shape in sizes.items()} for r in everyone]])
    yield dense_case("strided", "arrays that are not contiguous", ranks,
                     [[{"columns": exact(f"strided{r}", (4, 10))[:, ::3], "turned": exact(f"turned{r}", (3, 5)).T,
                        "backwards": exact(f"back{r}", (9,))[::-1]} for r in everyone]])
    yield dense_case("steps", "other data each step, one right after the other: no buffer may be used too early", ranks,
                     [[{name: exact(f"step{s}{name}{r}", (6,)) for name in ("first", "second")} for r in everyone]
                      for s in range(3)])
    near_largest = [(integers(f"half{r}", (8,), 56, 60) * 1024).astype("float16") for r in everyone]
    yield dense_case("half-overflow", "float16: the mean is finite, the sum is not", ranks,
                     [[{"weight": array} for array in near_largest]], "float16", exact=False,
                     settings={"only": {"dense": ["average"]}})
    counts = 3 * [3, 30, 1, 12, 7, 20, 2, 2, 40, 5]  # more elements than a usual limit has bytes
    yield dense_case("fusion", "many small arrays: fused messages hold as many bytes as the manifest says", ranks,
                     [[{f"v{i}": exact(f"fusion{i}{r}", (n,), "float64") for i, n in enumerate(counts)}
                       for r in everyone]], "float64", kind="fusion")


def dense_case(name, about, ranks, steps, dtype="float32", **more) -> Case:
    """Return a case of dense variables; shapes are taken from the inputs. steps[s][rank]: name -> array."""
    first = steps[0][0]
    variables = tuple(Variable(n, np.shape(first[n]), False, dtype) for n in sorted(first))
    return Case(f"dense/{name}", more.pop("kind", "dense"), about, ranks, variables, tuple(map(tuple, steps)), **more)
