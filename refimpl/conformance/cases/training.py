"""Updates over several steps: optimizers, clipping, loss scale, starts, accumulation, resume."""

from functools import cache

import numpy as np

from refimpl.conformance.case import Case, CaseVariable, Rows, with_numbers
from refimpl.conformance.cases import numbers
from refimpl.conformance.semantics import SUPPORTS

VARIABLES = (CaseVariable("weight", (2, 3)), CaseVariable("table", (10, 3), True), CaseVariable("items", (10, 3), True))
REMAINDERS = (CaseVariable("weight", (11,)), *(CaseVariable(name, (11, 3), True) for name in ("table", "items")))
RATES = {"sgd": 0.25, "momentum": 0.125, "adagrad": 0.5, "adam": 0.0625}
MORE = {"nesterov": ("nesterov", {"mu": 0.75}, ()), "dampened": ("dampened", {"mu": 0.75, "dampening": 0.5}, ()),
        "weight-decay": ("momentum", {"mu": 0.75, "decay": 0.125}, ("weight-decay",)),
        "row-decay": ("momentum", {"mu": 0.75, "decay": 0.125}, ("row-decay",)),
        "adamw": ("adamw", {"beta1": 0.75, "beta2": 0.96875, "epsilon": 1e-8, "decay": 0.5}, ())}
"""Case -> (optimizer, options, what it needs beside the optimizer)."""
OPTIONS = {"sgd": {}, "momentum": {"mu": 0.75}, "adagrad": {"initial": 1.0, "epsilon": 0.0},
           "adam": {"beta1": 0.75, "beta2": 0.96875, "epsilon": 1e-8}}
EPSILONS = {"adagrad": {"initial": 1.0, "epsilon": 0.5},
            "adam": {"beta1": 0.75, "beta2": 0.96875, "epsilon": 0.25}}
"""Numbers that float32 holds exactly."""


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    for name in RATES:
        yield training_case(f"update/{name}", "update", f"{name}, dense and by row, ids repeated, rows left alone",
                            ranks, name)
    yield training_case("update/momentum-rate", "update", "momentum with a learning rate that falls", ranks, "momentum",
                        rate_factor=0.5)
    for name, options in EPSILONS.items():
        yield training_case(f"update/{name}-epsilon", "update", f"{name} with an epsilon as large as the root", ranks,
                            name, options=options)
    for name, (optimizer, options, needs) in MORE.items():
        dense = name in ("weight-decay", "adamw")
        yield training_case(f"update/{name}", "update", f"{name} of {'dense variables' if dense else 'all variables'}",
                            ranks, optimizer, options=options, rate=0.125, needs=needs,
                            variables=VARIABLES[:1] if dense else VARIABLES)
    yield training_case("update/rows-at-rest", "update", "momentum: rows touched once, then never again", ranks,
                        "momentum", touched=lambda s, r: [r % 3, 4] if s == 0 else [7, 8])
    yield training_case("clip/norm", "update", "sgd with a clipped norm, gradients unlike on each rank", ranks, "sgd",
                        clip=1.0)
    yield training_case("clip/not-reached", "update", "sgd with a largest norm that no gradient has", ranks, "sgd",
                        clip=65536.0)
    yield training_case("clip/loss-scale", "update", "a clipped norm of gradients 1024 times too large", ranks, "sgd",
                        clip=0.5, loss_scale=1024.0)
    yield training_case("update/loss-scale", "update", "sgd on gradients 1024 times too large", ranks, "sgd",
                        loss_scale=1024.0)
    yield training_case("update/starts", "update", "each rank holds other initial values: rank 0's count", ranks, "sgd",
                        starts=True, only={"start": ["rank 0"]})
    falling = {"sgd": {"rate_factor": 0.5}}
    for name in ("sgd", "adam"):
        yield training_case(f"accumulate/{name}", "accumulate", f"{name} every 2 micro-steps, the last one alone",
                            ranks, name, micro=5, window=2, **falling.get(name, {}))
    yield training_case("accumulate/clip", "accumulate", "sgd every 2 micro-steps, a clipped norm of each window",
                        ranks, "sgd", micro=5, window=2, clip=1.0)
    yield training_case("update/remainders", "update", "sizes that no number of ranks from 2 to 8 divides", ranks,
                        "momentum", variables=REMAINDERS, touched=lambda s, r: [10, (s + r) % 11, 9])
    for name in RATES:
        yield training_case(f"resume/{name}", "resume", f"{name}, saved and resumed after 2 of 4 updates", ranks, name,
                            resume_after=2, **falling.get(name, {}))


def training_case(name, kind, about, ranks, optimizer, micro=4, starts=False, only=None, touched=None,
                  variables=VARIABLES, needs=(), **task) -> Case:
    """Return a case of an optimizer. touched(step, rank) -> ids; task: fields of Task that are not the default."""
    steps = tuple(tuple(_gradients(s, r, task.get("loss_scale", 1.0), touched or _touched, variables)
                        for r in range(ranks)) for s in range(micro))
    settings = {"task": {"optimizer": optimizer, "rate": RATES.get(optimizer), "options": OPTIONS.get(optimizer),
                         **task},
                "starts": starts}
    if only:
        settings["only"] = only
    needs = (*(n for n in SUPPORTS if n == optimizer or n.replace("-", "_") in task), *needs)
    return Case(name, kind, about, ranks, variables, steps, settings=settings, needs=needs)


def start_of(case: Case, rank: int) -> dict[str, np.ndarray]:
    """Return a rank's initial values: rank 0's, unless the case is about starts. Local."""
    key = f"start{rank}" if case.settings["starts"] else "start0"
    return {v.name: _start(key + v.name, v.shape).astype(v.dtype) for v in case.variables}


@cache
def _start(key, shape):
    return numbers.integers(key, shape, -64, 64) / 64


def _touched(step, rank):
    """Row 2 by all ranks and twice, others by some, row 9 by none."""
    return [2, (step + rank) % 9, 2, (3 * step + rank) % 5 + 3]


def _gradients(step, rank, scale, touched, variables):
    ids = np.array(touched(step, rank), np.int64)
    parts = {"weight": numbers.exact(f"w{step}.{rank}", variables[0].shape, place=f"w{step}") / np.float32(64)}
    for name in ("table", "items"):
        mine = ids if name == "table" else (ids * 3 + 1) % 9
        rows = np.stack([numbers.exact(f"{name}{step}.{rank}.{i}", (3,), place=f"{name}{step}.{k}")
                         for i, k in enumerate(mine)]) / np.float32(64)
        parts[name] = Rows(mine, rows)
    return {v.name: with_numbers(parts[v.name], lambda x: x * np.float32(scale)) for v in variables}
