"""Aggregation of dense gradients: who was counted, exact sums, cancelling sums, edges."""

import numpy as np

from refimpl.conformance.case import Case, Variable
from refimpl.conformance.cases import numbers

SHAPES = {"weight": (3, 5), "bias": (7,), "scale": ()}


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    yield _provenance(ranks)
    yield _orders(ranks)
    for dtype in ("float32", "float64"):
        yield _exact(ranks, dtype)
        yield _cancelling(ranks, dtype)
    yield _tails(ranks)
    yield _strided(ranks)
    yield _steps(ranks)
    yield _half(ranks)
    yield _fusion(ranks)


def dense_case(name, about, ranks, steps, dtype="float32", **more) -> Case:
    """Return a case of dense variables; shapes are taken from the inputs. steps[s][rank]: name -> array."""
    first = steps[0][0]
    variables = tuple(Variable(n, np.shape(first[n]), False, dtype) for n in sorted(first))
    return Case(f"dense/{name}", more.pop("kind", "dense"), about, ranks, variables, tuple(map(tuple, steps)), **more)


def _provenance(ranks):
    step = [{name: numbers.provenance(r, ranks, i, shape) for i, (name, shape) in enumerate(SHAPES.items())}
            for r in range(ranks)]
    return dense_case("provenance", "rank r contributes 4^r times a code of the place", ranks, [step],
                      settings={"provenance": True})


def _orders(ranks):
    names = ["first", "second", "third"]
    step = []
    for r in range(ranks):
        turned = names[r % 3:] + names[:r % 3]
        step.append({name: numbers.provenance(r, ranks, names.index(name), (4,)) for name in turned})
    return dense_case("orders", "variables of one shape, produced in another order on each rank", ranks, [step],
                      settings={"provenance": True})


def _exact(ranks, dtype):
    step = [{name: numbers.exact(f"exact{name}{r}", shape, dtype) for name, shape in SHAPES.items()}
            for r in range(ranks)]
    return dense_case(f"exact-{dtype}", "sums without rounding errors: tolerance zero", ranks, [step], dtype)


def _cancelling(ranks, dtype):
    arrays = numbers.cancelling("cancelling", ranks, (41,), dtype)
    return dense_case(f"cancelling-{dtype}", "sums that cancel, within γ Σ|x| of the correctly rounded sum", ranks,
                      [[{"weight": array} for array in arrays]], dtype, exact=False)


def _tails(ranks):
    sizes = {"one": (1,), "ranks-and-one": (ranks + 1,), "below": (max(1, 4 * ranks - 1),), "none": (0,)}
    step = [{name: numbers.exact(f"tail{name}{r}", shape) for name, shape in sizes.items()} for r in range(ranks)]
    return dense_case("tails", "sizes that leave a tail of one element, one too few, or nothing", ranks, [step])


def _strided(ranks):
    step = [{"columns": numbers.exact(f"strided{r}", (4, 10))[:, ::3], "turned": numbers.exact(f"turned{r}", (3, 5)).T,
             "backwards": numbers.exact(f"back{r}", (9,))[::-1]} for r in range(ranks)]
    return dense_case("strided", "arrays that are not contiguous", ranks, [step])


def _steps(ranks):
    steps = [[{name: numbers.exact(f"step{s}{name}{r}", (6,)) for name in ("first", "second")} for r in range(ranks)]
             for s in range(3)]
    return dense_case("steps", "other data each step, one right after the other: no buffer may be used too early",
                      ranks, steps)


def _half(ranks):
    """Each contribution is near float16's largest number; so is the mean, but not the sum."""
    step = [{"weight": (numbers.integers(f"half{r}", (8,), 56, 60) * 1024).astype("float16")} for r in range(ranks)]
    return dense_case("half-overflow", "float16: the mean is finite, the sum is not", ranks, [step], "float16",
                      exact=False, settings={"only": {"dense": ["average"]}})


def _fusion(ranks):
    sizes = 3 * [3, 30, 1, 12, 7, 20, 2, 2, 40, 5]  # more elements than a usual limit has bytes
    step = [{f"v{i}": numbers.exact(f"fusion{i}{r}", (n,), "float64") for i, n in enumerate(sizes)}
            for r in range(ranks)]
    return dense_case("fusion", "many small arrays: fused messages hold as many bytes as the manifest says", ranks,
                      [step], "float64", kind="fusion")
