"""What happens around aggregation: kinds mixed, variables read twice, subgroups, broadcasts, losses, samples, draws."""

import numpy as np

from refimpl.conformance.case import Case, Rows, Variable
from refimpl.conformance.cases import numbers
from refimpl.conformance.cases.rows import exact_rows


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    yield _mixed(ranks)
    yield _uses(ranks)
    if ranks > 2:
        yield _group(ranks)
    yield _broadcast(ranks)
    yield from _losses(ranks)
    for count in (4 * ranks + 1, 4 * ranks, max(1, ranks - 1)):
        yield _of_one_number("sampler", f"{count}-examples", ranks, {"count": count},
                             f"an epoch of {count} examples: which of them each rank sees")
    yield _of_one_number("random", "streams", ranks, {"count": 64},
                         "random numbers as for dropout: each rank draws its own, the same again when asked again")


def _mixed(ranks):
    """Dense and row gradients; every second rank produces them the other way round. No two have one shape."""
    step = []
    for r in range(ranks):
        parts = [("weight", numbers.provenance(r, ranks, 0, (4, 3))),
                 ("table", Rows(np.arange(4), numbers.provenance(r, ranks, 1, (4, 3))))]
        step.append(dict(parts[::-1] if r % 2 else parts))
    variables = (Variable("weight", (4, 3)), Variable("table", (9, 3), True))
    return Case("mixed/orders", "mixed", "dense and row gradients together, in another order on every second rank",
                ranks, variables, (tuple(step),), settings={"provenance": True})


def _uses(ranks):
    step = [{"tied": [exact_rows(f"use{r}", [1, 3, r]), exact_rows(f"reuse{r}", [3, 5])],
             "weight": [numbers.exact(f"weight{r}", (2, 3)), numbers.exact(f"again{r}", (2, 3))]} for r in range(ranks)]
    variables = (Variable("tied", (9, 3), True), Variable("weight", (2, 3)))
    return Case("uses/twice", "uses", "variables read at two places of the forward pass: both gradients count, once",
                ranks, variables, (tuple(step),), settings={"only": {"duplicates": ["add"]}})


def _group(ranks):
    group = [r for r in range(ranks) if r != 1]
    step = [{"weight": numbers.exact(f"group{r}", (5,))} for r in range(ranks)]
    return Case("group/all-but-one", "group", f"an aggregation among ranks {', '.join(map(str, group))} alone", ranks,
                (Variable("weight", (5,)),), (tuple(step),), settings={"group": group})


def _broadcast(ranks):
    step = [{"weight": numbers.exact(f"root{r}", (5,))} for r in range(ranks)]
    return Case("broadcast/last", "broadcast", f"a broadcast from rank {ranks - 1}", ranks, (Variable("weight", (5,)),),
                (tuple(step),), settings={"root": ranks - 1})


def _losses(ranks):
    """Per-example losses and gradients; float64, since means of uneven counts round."""
    for name, about, counts in (
            ("unequal", "ranks with unlike numbers of examples", [r + 1 for r in range(ranks)]),
            ("run-out", "the last batch: some ranks have no example left", [2 if r == 0 or r < ranks // 2 else 0
                                                                            for r in range(ranks)])):
        step = [{"losses": numbers.exact(f"loss{name}{r}", (n,), "float64"),
                 "gradients": numbers.exact(f"gradient{name}{r}", (n, 4), "float64")} for r, n in enumerate(counts)]
        variables = (Variable("loss", (), False, "float64"), Variable("gradient", (4,), False, "float64"))
        yield Case(f"loss/{name}", "loss", about, ranks, variables, (tuple(step),), exact=False)


def _of_one_number(kind, name, ranks, settings, about):
    return Case(f"{kind}/{name}", kind, about, ranks, (), (tuple({} for _ in range(ranks)),), settings=settings)
