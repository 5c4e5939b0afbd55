"""Updates over several steps: optimizers, clipping, loss scale, starts, accumulation, resume."""

from functools import cache

import numpy as np

from refimpl.conformance.case import Case, CaseVariable, Rows, with_numbers
from refimpl.conformance.cases import numbers
from refimpl.conformance.semantics import SUPPORTS

VARIABLES = (CaseVariable("weight", (2, 3)), CaseVariable("table", (10, 3), True), CaseVariable("items", (10, 3), True))
REMAINDERS = (CaseVariable("weight", (11,)), *(CaseVariable(name, (11, 3), True) for name in ("table", "items")))
RATES = {"sgd": 0.25, "momentum": 0.125, "adagrad": 0.5, "adam": 0.0625}
MORE = {"nesterov": ("nesterov", {"mu": 0.75}, (), VARIABLES),
        "dampened": ("dampened", {"mu": 0.75, "dampening": 0.375}, (), VARIABLES),
        "weight-decay": ("momentum", {"mu": 0.75, "decay": 0.125}, ("weight-decay",), VARIABLES[:1]),
        "row-decay": ("momentum", {"mu": 0.75, "decay": 0.125}, ("row-decay",), VARIABLES),
        "adamw": ("adamw", {"beta1": 0.75, "beta2": 0.96875, "epsilon": 1e-8, "decay": 0.5}, (), VARIABLES[:1])}
"""Case -> (optimizer, options, what it needs beside the optimizer, variables)."""
OPTIONS = {"sgd": {}, "momentum": {"mu": 0.75}, "adagrad": {"initial": 1.0, "epsilon": 0.0},
           "adam": {"beta1": 0.75, "beta2": 0.96875, "epsilon": 1e-8}}
EPSILONS = {"adagrad": {"initial": 1.0, "epsilon": 0.5},
            "adam": {"beta1": 0.75, "beta2": 0.96875, "epsilon": 0.25}}
"""Numbers that float32 holds exactly."""


def cases(ranks: int):
    """Yield the cases for a number of ranks."""
    falling = {"sgd": {"rate_factor": 0.5}}
    for name, about, optimizer, task in (
            *((f"update/{o}", f"{o}, dense and by row, ids repeated, rows left alone", o, {}) for o in RATES),
            ("update/momentum-rate", "momentum with a learning rate that falls", "momentum", {"rate_factor": 0.5}),
            *((f"update/{o}-epsilon", f"{o} with an epsilon as large as the root", o, {"options": options})
              for o, options in EPSILONS.items()),
            *((f"update/{name}", f"{name} of {'dense' if len(of) == 1 else 'all'} variables", o,
               {"options": options, "rate": 0.125, "needs": needs, "variables": of})
              for name, (o, options, needs, of) in MORE.items()),
            ("update/rows-at-rest", "momentum: rows touched once, then never again", "momentum",
             {"touched": lambda s, r: [r % 3, 4] if s == 0 else [7, 8]}),
            ("clip/norm", "sgd with a clipped norm, gradients unlike on each rank", "sgd", {"clip": 1.0}),
            ("clip/not-reached", "sgd with a largest norm that no gradient has", "sgd", {"clip": 65536.0}),
            ("clip/loss-scale", "a clipped norm of gradients 1024 times too large", "sgd",
             {"clip": 0.5, "loss_scale": 1024.0}),
            ("update/loss-scale", "sgd on gradients 1024 times too large", "sgd", {"loss_scale": 1024.0}),
            ("update/starts", "each rank holds other initial values: rank 0's count", "sgd",
             {"starts": True, "only": {"start": ["rank 0"]}}),
            *((f"accumulate/{o}", f"{o} every 2 micro-steps, the last one alone", o,
               {"micro": 5, "window": 2, **falling.get(o, {})}) for o in ("sgd", "adam")),
            ("accumulate/clip", "sgd every 2 micro-steps, a clipped norm of each window", "sgd",
             {"micro": 5, "window": 2, "clip": 1.0}),
            ("update/remainders", "sizes that no number of ranks from 2 to 8 divides", "momentum",
             {"variables": REMAINDERS, "touched": lambda s, r: [10, (s + r) % 11, 9]}),
            *((f"resume/{o}", f"{o}, saved and resumed after 2 of 4 updates", o,
               {"resume_after": 2, **falling.get(o, {})}) for o in RATES)):
        yield training_case(name, about, ranks, optimizer, **task)


def training_case(name, about, ranks, optimizer, micro=4, starts=False, only=None, touched=None, variables=VARIABLES,
                  needs=(), **task) -> Case:
    """Return a case of an optimizer. touched(step, rank) -> ids; task: fields of Task that are not the default."""
    steps = _steps(micro, ranks, task.get("loss_scale", 1.0), touched or _touched, variables)
    settings = {"task": {"optimizer": optimizer, "rate": RATES.get(optimizer), "options": OPTIONS.get(optimizer),
                         **task},
                "starts": starts}
    if only:
        settings["only"] = only
    needs = (*(n for n in SUPPORTS if n == optimizer or n.replace("-", "_") in task), *needs)
    kind = name.partition("/")[0].replace("clip", "update")
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


@cache
def _steps(micro, ranks, scale, touched, variables):
    """The same object for all cases that have the same gradients: their sums are computed once."""
    return tuple(tuple(_gradients(s, r, scale, touched, variables) for r in range(ranks)) for s in range(micro))


def _gradients(step, rank, scale, touched, variables):
    ids = np.array(touched(step, rank), np.int64)
    parts = {"weight": numbers.exact(f"w{step}.{rank}", variables[0].shape, place=f"w{step}") / np.float32(64)}
    for name in ("table", "items"):
        mine = ids if name == "table" else (ids * 3 + 1) % 9
        rows = np.stack([numbers.exact(f"{name}{step}.{rank}.{i}", (3,), place=f"{name}{step}.{k}")
                         for i, k in enumerate(mine)]) / np.float32(64)
        parts[name] = Rows(mine, rows)
    return {v.name: with_numbers(parts[v.name], lambda x: x * np.float32(scale)) for v in variables}
