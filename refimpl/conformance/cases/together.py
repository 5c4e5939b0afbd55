"""What happens around aggregation: kinds mixed, variables read twice, subgroups, broadcasts, losses, samples, draws."""

import numpy as np

from refimpl.conformance.case import Case, CaseVariable, Rows
from refimpl.conformance.cases.numbers import exact, provenance
from refimpl.conformance.cases.rows import exact_rows


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    everyone, weight = range(ranks), (CaseVariable("weight", (5,)),)
    yield _mixed(ranks)
    yield Case("uses/twice", "uses", "variables read at two places of the forward pass: both gradients count, once",
               ranks, (CaseVariable("tied", (9, 3), True), CaseVariable("weight", (2, 3))),
               (tuple({"tied": [exact_rows(f"use{r}", [1, 3, r]), exact_rows(f"reuse{r}", [3, 5])],
                       "weight": [exact(f"weight{r}", (2, 3)), exact(f"again{r}", (2, 3))]} for r in everyone),),
               settings={"only": {"duplicates": ["add"]}})
    if ranks > 2:
        group = [r for r in everyone if r != 1]
        yield Case("group/all-but-one", "group", f"an aggregation among ranks {', '.join(map(str, group))} alone",
                   ranks, weight, (tuple({"weight": exact(f"group{r}", (5,))} for r in everyone),),
                   settings={"group": group})
    yield Case("broadcast/last", "broadcast", f"a broadcast from rank {ranks - 1}", ranks, weight,
               (tuple({"weight": exact(f"root{r}", (5,))} for r in everyone),), settings={"root": ranks - 1})
    yield from _losses(ranks)
    nothing = (tuple({} for _ in everyone),)
    for count in (4 * ranks + 1, 4 * ranks, max(1, ranks - 1)):
        yield Case(f"sampler/{count}-examples", "sampler",
                   f"an epoch of {count} examples: which of them each rank sees", ranks, (), nothing,
                   settings={"count": count})
    yield Case("random/streams", "random",
               "random numbers as for dropout: each rank draws its own, the same again when asked again", ranks, (),
               nothing, settings={"count": 64})


def _mixed(ranks):
    """Dense and row gradients; every second rank produces them the other way round. No two have one shape."""
    step = []
    for r in range(ranks):
        parts = [("weight", provenance(r, ranks, 0, (4, 3))),
                 ("table", Rows(np.arange(4), provenance(r, ranks, 1, (4, 3))))]
        step.append(dict(parts[::-1] if r % 2 else parts))
    variables = (CaseVariable("weight", (4, 3)), CaseVariable("table", (9, 3), True))
    return Case("mixed/orders", "mixed", "dense and row gradients together, in another order on every second rank",
                ranks, variables, (tuple(step),), settings={"provenance": True})


def _losses(ranks):
    """Per-example losses and gradients; float64, since means of uneven counts round."""
    for name, about, counts in (
            ("unequal", "ranks with unlike numbers of examples", [r + 1 for r in range(ranks)]),
            ("run-out", "the last batch: some ranks have no example left", [2 if r == 0 or r < ranks // 2 else 0
                                                                            for r in range(ranks)])):
        step = [{"losses": exact(f"loss{name}{r}", (n,), "float64"),
                 "gradients": exact(f"gradient{name}{r}", (n, 4), "float64")} for r, n in enumerate(counts)]
        variables = (CaseVariable("loss", (), False, "float64"), CaseVariable("gradient", (4,), False, "float64"))
        yield Case(f"loss/{name}", "loss", about, ranks, variables, (tuple(step),), exact=False)
