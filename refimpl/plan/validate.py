"""A plan that someone wrote or edited, held against the training that is to follow it: everything that would not work.

Each refusal names what is wrong and what would be right. All Local.
"""

import json
from dataclasses import fields
from pathlib import Path

from refimpl.plan.buckets import buckets_of
from refimpl.plan.make import ARCHITECTURES
from refimpl.plan.plan import PLAN_FORMAT, Plan
from refimpl.plan.strategy import fields_of, strategy_of
from refimpl.transport.machines import Machines

FIELDS = {"architecture": str, "ranks": int, "microbatches": int, "allreduce": str, "placements": list,
          "machines": (list, tuple), "local_aggregation": bool}
"""What a plan's JSON must have, and of which type; the rest has defaults."""

OF_PLACEMENT = {"variable": str, "sparse": bool, "strategy": str}
"""What each of its placements must have, beside what its strategy asks for."""

LISTS = {"machines": int, "buckets": str}
"""Lists of lists: of ranks, of variables' names."""


def read_plan(path) -> dict:
    """Return the JSON of a plan file. Raises ValueError if it holds none, OSError if it cannot be read."""
    try:
        data = json.loads(Path(path).read_text())
    except OSError as problem:
        raise OSError(f"cannot read the plan {path}: {problem.strerror}; make one with python -m refimpl plan MODEL "
                      f"--ranks N --output FILE") from problem
    except ValueError as problem:
        raise ValueError(f"{path} is not JSON: {problem}") from problem
    if not isinstance(data, dict) or "placements" not in data:
        raise ValueError(f"{path} is no plan: make one with python -m refimpl plan MODEL --ranks N --output {path}")
    return data


def plan_from(data: dict) -> Plan:
    """Return the plan of its JSON. Raises ValueError naming what is missing, unknown or of another type."""
    if data.get("format") == PLAN_FORMAT:
        _check_fields("plan", data, [field.name for field in fields(Plan)], FIELDS)
        for name, kind in LISTS.items():
            if not _are_lists(data.get(name, ()), kind):
                raise ValueError(f"plan: {name} is {_said(data[name])}; it must be a list of lists of "
                                 f"{'ranks' if kind is int else 'names'}")
        for number, placement in enumerate(data["placements"]):
            _check_placement_fields(number, placement)
    try:
        return Plan.from_json(data)
    except (TypeError, KeyError, AttributeError) as problem:
        raise ValueError(f"plan: {problem}; see a plan.json of this version for what it must hold") from problem


def _check_placement_fields(number, placement):
    """Raise ValueError unless a placement has what its strategy asks for, and nothing else."""
    if not isinstance(placement, dict):
        raise ValueError(f"plan: placement {number} is {_said(placement)}; see a plan.json of this version")
    what = f"plan, {placement.get('variable', f'placement {number}')}"
    _check_fields(what, placement, None, OF_PLACEMENT)
    try:
        strategy = strategy_of(placement["strategy"], placement["sparse"])
    except ValueError as problem:
        raise ValueError(f"{what}: {problem}") from problem
    known = [*OF_PLACEMENT, *fields_of(strategy)]
    if unknown := [name for name in placement if name not in known]:
        raise ValueError(f"{what}: the strategy {strategy.name} has no {', '.join(map(_said, unknown))}; leave that "
                         f"out. It has {', '.join(fields_of(strategy))}")
    _check_fields(what, placement, known, strategy.asks)


def _are_lists(value, kind) -> bool:
    return isinstance(value, (list, tuple)) and all(
        isinstance(some, (list, tuple)) and all(isinstance(one, kind) for one in some) for some in value)


def _check_fields(what, data, known, required):
    """Raise ValueError unless ``data`` has only ``known`` fields (None: any), the required ones of their type."""
    if unknown := [name for name in data if known is not None and name not in known and name != "format"]:
        raise ValueError(f"{what}: there is no {', '.join(map(_said, unknown))}; there are {', '.join(known)}")
    for name, wanted in required.items():
        value = data.get(name, "missing")
        if name not in data or not isinstance(value, wanted) or wanted is int and isinstance(value, bool):
            raise ValueError(f"{what}: {name} is {_said(value)}; see a plan.json of this version")


def check_plan(plan: Plan, variables, ranks: int, microbatches: int, machines: Machines, *, consistencies,
               codecs) -> Plan:
    """Return the plan if a training of these variables on these ranks can follow it. Raises ValueError if not.

    consistencies, codecs: the names of those that there are.
    """
    _check_job(plan, ranks, microbatches, machines)
    if plan.consistency not in consistencies:
        raise ValueError(f"plan: no consistency {_said(plan.consistency)}; there are {', '.join(consistencies)}")
    _check_names(plan, variables)
    by_name = {v.name: v for v in variables}
    for placement in plan.placements:
        _check_placement(placement, by_name[placement.variable], ranks, codecs)
    buckets_of(plan)
    _check_pull_rounds(plan)
    try:
        plan.schedule()
    except ValueError as problem:
        raise ValueError(f"plan: allreduce {plan.allreduce!r}: {problem}") from problem
    return plan


def _check_job(plan, ranks, microbatches, machines):
    if plan.architecture not in (*ARCHITECTURES, "auto"):  # it names the run directory
        raise ValueError(f"the plan's architecture is {plan.architecture!r}; say {', '.join(ARCHITECTURES)} or auto")
    for what, planned, given in (("ranks", plan.ranks, ranks), ("microbatches", plan.microbatches, microbatches)):
        if planned != given:
            raise ValueError(f"the plan is for {planned} {what}, this training has {given}; make it again for {given}, "
                             "or go without one (--plan none)")
    planned = tuple(map(tuple, plan.on_machines))
    if planned != tuple(map(tuple, machines)):
        raise ValueError(f"the plan is for machines with ranks {_said(planned)}, here they have {_said(machines)}; "
                         f"make it again for these (python -m refimpl plan ... --machines {len(machines)})")


def _check_names(plan, variables):
    planned, known = [p.variable for p in plan.placements], [v.name for v in variables]
    if twice := sorted({_said(name) for name in planned if planned.count(name) > 1}):
        raise ValueError(f"the plan places {', '.join(twice)} more than once; each variable has one strategy")
    if unknown := [name for name in planned if name not in known]:
        raise ValueError(f"the plan places {', '.join(map(_said, unknown))}, which the model lacks; "
                         f"its variables are {', '.join(known)}")
    if missing := [name for name in known if name not in planned]:
        raise ValueError(f"the plan has no placement for {', '.join(map(_said, missing))}; every variable needs one")


def _check_placement(placement, variable, ranks, codecs):
    name, kind = f"plan, {variable.name}", "sparse" if variable.sparse else "dense"
    if placement.sparse is not variable.sparse:
        raise ValueError(f"{name}: sparse is {_said(placement.sparse)}, but the variable is {kind}")
    if placement.strategy.codec not in codecs:
        raise ValueError(f"{name}: no codec {_said(placement.strategy.codec)}; there are {', '.join(codecs)}")
    try:
        placement.strategy.check(variable, ranks)
    except ValueError as problem:
        raise ValueError(f"{name}: {problem}") from problem


def _check_pull_rounds(plan):
    if type(plan.pull_rounds) is not int or not 1 <= plan.pull_rounds <= plan.microbatches:
        raise ValueError(f"plan: pull_rounds is {_said(plan.pull_rounds)}; rows are pulled in 1 to {plan.microbatches} "
                         "rounds, one for each microbatch at most")
    if plan.pull_rounds > 1 and plan.aggregators() is not None:  # else a row could cross in two rounds
        raise ValueError(f"plan: pull_rounds is {plan.pull_rounds}, but the ranks of a machine pull together in "
                         "one round; give 1, or local_aggregation false")


def _said(value) -> str:
    text = json.dumps(value, default=str).strip('"')
    return text if len(text) <= 60 else text[:57] + "..."
