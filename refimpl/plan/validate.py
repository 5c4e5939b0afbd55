"""Check a plan that a user wrote or edited against the training that will follow it. All functions are local.

Each error says what is wrong and what would be right.
"""

import json
from collections import Counter
from typing import Any

from refimpl.json_file import read_json
from refimpl.plan.buckets import buckets_of, listed
from refimpl.plan.make import ARCHITECTURES
from refimpl.plan.mesh import check_mesh
from refimpl.plan.plan import Plan
from refimpl.transport.machines import Machines

MAKE_ONE = "make one with python -m refimpl plan MODEL --ranks N --output"


def read_plan(path) -> dict:
    """Return the JSON of a plan file. Raises ValueError if there is none in it, OSError if it cannot be read."""
    try:
        data = read_json(path, dict[str, Any], what="a plan", remedy=f"{MAKE_ONE} {path}")
    except OSError as problem:
        raise OSError(f"cannot read the plan {path}: {problem.strerror}; {MAKE_ONE} FILE") from problem
    try:
        Plan.from_json(data)
    except ValueError as problem:
        raise ValueError(f"{path}: {problem}") from problem
    return data


def check_plan(plan: Plan, variables, ranks: int, microbatches: int, machines: Machines, *, consistencies) -> Plan:
    """Return the plan if a training of these variables on these ranks can follow it. Raises ValueError otherwise.

    consistencies: the names of all consistencies.
    """
    _check_job(plan, ranks, microbatches, machines)
    if plan.consistency.partition(":")[0] not in consistencies:
        raise ValueError(f"plan: no consistency {_said(plan.consistency)}; there are {', '.join(consistencies)}")
    _check_names(plan, variables)
    by_name = {v.name: v for v in variables}
    for placement in plan.placements:
        _check_placement(placement, by_name[placement.variable], ranks)
    buckets_of(plan)
    check_mesh(plan, variables)
    _check_pull_rounds(plan)
    try:
        plan.schedule()
    except ValueError as problem:
        raise ValueError(f"plan: allreduce {_said(plan.allreduce)!r}: {problem}") from problem
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
    if twice := [name for name, times in Counter(planned).items() if times > 1]:
        raise ValueError(f"the plan places {listed(twice)} more than once; each variable has one strategy")
    if unknown := sorted({*planned} - {*known}):
        raise ValueError(f"the plan places {listed(unknown)}, which the model lacks; its variables are "
                         f"{listed(known)}")
    if missing := [name for name in known if name not in planned]:
        raise ValueError(f"the plan has no placement for {listed(missing)}; every variable needs one")


def _check_placement(placement, variable, ranks):
    name, kind = f"plan, {variable.name}", "sparse" if variable.sparse else "dense"
    if placement.sparse is not variable.sparse:
        raise ValueError(f"{name}: sparse is {_said(placement.sparse)}, but the variable is {kind}")
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
