"""A program that shows a failure which has no name: the smallest case, what the adapter gives beside what is right."""

import inspect
import textwrap
from contextlib import suppress
from dataclasses import fields, is_dataclass

import numpy as np

from refimpl.conformance.case import with_numbers
from refimpl.conformance.cases import case_named
from refimpl.conformance.kinds import KINDS

RUN = {"mpi": "mpirun -n {ranks} python -m mpi4py FILE", "local": "python FILE",
       "processes": "torchrun --nproc-per-node {ranks} FILE, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"}
BEGIN = {"local": "from refimpl.conformance.worlds import run_ranks\n\n"
                  "run_ranks({ranks}, lambda world: show(adapter.for_world(world), world.rank))\n"}
CLASSES = ("Arrivals", "CaseVariable", "CodecTask", "Connected", "MeshTask", "Task")
PROGRAM = '''# {case}: {about}
# {run}
import numpy as np
from numpy import inf, nan

import {target} as adapter
{classes}
CALLS = [  # of each rank: the arguments of each call
{calls}
]
# place: (number, how far from it another is right)
EXPECTED = {expected}


{numbers}

def show(adapter, rank):
    answers = [adapter.{function}(*arguments) for arguments in CALLS[rank]]
    if rank not in {ranks}:
        return
    got = numbers({answer})
    for place in sorted({places}):
        found, (right, allowed) = got.get(place, 0.0), EXPECTED.get(place, (0.0, 0.0))
        if not (abs(found - right) <= allowed or found == right or np.isnan([found, right]).all()):
            print(f"rank {{rank}}: {variable}{{list(place)}} is {{found:.9g}}, expected {{right:.9g}}", flush=True)


{begin}'''


def snippet(outcome, diagnosis) -> str:
    """Return a program that calls the target on the smallest case of a diagnosis; "" where it names none. Local."""
    if not diagnosis.shown_by:
        return ""
    name, step, variable, rank = diagnosis.shown_by
    case = case_named(name, outcome.ranks)
    want = KINDS[case.kind].expect(case, outcome.semantics)[step][variable]
    value, tolerance = (want.value, want.tolerance) if want.canonical is None else (want.canonical, 0 * want.tolerance)
    right, allowed = numbers(value), numbers(with_numbers(value, lambda _: tolerance))
    calls = ",\n".join(_wrapped(calls_of(case, each)) for each in range(case.ranks))
    classes = ", ".join(c for c in CLASSES if f"{c}(" in calls)
    return PROGRAM.format(
        case=name, about=case.about, run=RUN[outcome.launcher].format(ranks=case.ranks), target=outcome.target,
        classes=classes and f"from refimpl.conformance.case import {classes}\n", calls=calls,
        expected=_wrapped({place: (number, allowed[place]) for place, number in right.items()}),
        numbers=inspect.getsource(numbers), function=KINDS[case.kind].functions[0],
        answer=_answer(case, step, variable), variable=variable,
        ranks=[rank] if rank is not None else list(range(case.ranks)),
        places="got" if rank is None else "{*got, *EXPECTED}",  # None: each rank has some of the rows
        begin=BEGIN.get(outcome.launcher, "show(adapter, adapter.world()[0])\n").format(ranks=case.ranks))


def numbers(part):
    """Return place -> number of an array, or of (ids, rows); rows that share an id are added. Local."""
    ids, array = part if isinstance(part, (tuple, list)) else (None, part)
    found = {}
    for place, number in np.ndenumerate(np.atleast_1d(array)):
        place = place if ids is None else (int(ids[place[0]]), *place[1:])
        found[place] = found.get(place, 0.0) + float(number)
    return found


def calls_of(case, rank) -> list[tuple]:
    """Return the arguments of each call of the adapter's function on a rank, in a case. Local."""
    calls = []

    def function(*arguments, **named):
        calls.append((*arguments, *named.values()))
        return {}

    with suppress(Exception):  # no answer is right
        KINDS[case.kind].call((function, list), case, rank)
    return calls


def literal(value) -> str:
    """Return a value as Python writes it; of an array its strides too. Local."""
    if isinstance(value, np.ndarray):
        kind = value.dtype.name
        if not value.flags.c_contiguous:
            return f"{literal(value[::-1].copy())}[::-1]" if value.strides[0] < 0 else (
                f"np.repeat({literal(value.copy())}[..., None], 2, -1)[..., 0]")
        return f"np.array({value.tolist()}, {kind!r})" if value.size else f"np.zeros({value.shape}, {kind!r})"
    if is_dataclass(value):
        given = ", ".join(f"{f.name}={literal(getattr(value, f.name))}" for f in fields(value))
        return f"{type(value).__name__}({given})"
    if isinstance(value, dict):
        return f"{{{', '.join(f'{literal(k)}: {literal(v)}' for k, v in value.items())}}}"
    if isinstance(value, (tuple, list)):
        items = ", ".join(map(literal, value))
        return f"[{items}]" if isinstance(value, list) else f"({items}{',' * (len(value) == 1)})"
    return repr(value)


def _wrapped(value) -> str:
    return textwrap.fill(literal(value), 118, break_long_words=False, break_on_hyphens=False)


def _answer(case, step, variable) -> str:
    """Return how the program writes the answer that differs."""
    if case.kind == "loss":
        return f"answers[{step}][{int(variable == 'gradient')}]"
    if case.kind == "mesh":
        return f"answers[0][{variable.partition(' of ')[0]!r}]"
    if case.kind == "owner" and variable == "waited":
        return f"answers[0][{step}][0]"
    if case.kind == "owner":
        pulls = [parts[0] for parts, (what, _) in zip(case.steps, case.settings["entries"]) if what == "pull"]
        found, ids = f"answers[0][{step}][1][{variable!r}]", pulls[step].get(variable)
        return found if ids is None else f"({ids.tolist()}, {found})"
    inner = "[0]" if KINDS[case.kind].stage in ("update", "codec") else ""
    return f"answers{inner}[{step}][{variable!r}]"
