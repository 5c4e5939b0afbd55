"""Equals plain/cost_table.goes_whole: ``hybrid`` sends a table whole where that takes no more bytes than its rows.

    by rows   numbers of the touched rows, their values, their gradients     grows with α
    whole     gradients of all rows, and a mark for each row                 the same for any α; nothing is pulled

Compared are the exact bytes of each table by itself, with the rows of the first sampled step: between the ranks of one
machine, or between machines if there are several. The choice is part of the plan, and moves no bit of the result.
"""

from refimpl.collectives.prove import prove
from refimpl.plan.cost import machine_numbers
from refimpl.plan.make import AS_DENSE
from refimpl.plan.plan import Plan
from refimpl.plan.sample import Sample, workers_of
from refimpl.plan.strategy import strategy_of

MOST_TOLD = 4


def with_whole(plan: Plan, variables, sample: Sample) -> tuple[Plan, dict[str, str]]:
    """Return the plan, in which tables whose α is near 1 go whole, and variable -> why. Local.

    sample: of the first step at least.  Nothing changes without it, on one rank, which sends nothing, or if the
    allreduce adds in another order than the server.
    """
    chosen, reasons = {}, {}
    if not sample.steps or not prove(plan.schedule()).canonical:
        return plan, reasons
    for variable in plan.partitioned(variables):
        name, served = variable.name, plan.strategies[variable.name]
        whole = strategy_of(AS_DENSE["allreduce"], True)(codec=served.codec)
        as_dense, by_rows = (_sent(plan, variable, strategy, sample) for strategy in (whole, served))
        if 0 < as_dense <= by_rows:
            alpha = sample.alphas(name, workers_of(sample.microbatches, plan.ranks))[0]
            chosen[name] = whole
            reasons[name] = f"α = {alpha:.3g}: {as_dense:,} bytes a step whole, {by_rows:,} by rows"
    return plan.replaced(chosen), reasons


def describe_whole(reasons: dict[str, str]) -> str | None:
    """Return what ``with_whole`` has chosen, and why, as a line; None if nothing. Local."""
    told = [f"{name} ({reason})" for name, reason in reasons.items()]
    more = [f"and {len(told) - MOST_TOLD} more"] * (len(told) > MOST_TOLD)
    return f"hybrid: whole, by allreduce, go {', '.join(told[:MOST_TOLD] + more)}" if told else None


def _sent(plan, variable, strategy, sample) -> int:
    """Return the bytes that all ranks, or machines, send each other for a variable in the first sampled step."""
    rows = sample.pulled(0, variable.name, plan.ranks), sample.pushed(0, variable.name, plan.ranks)
    machine = machine_numbers(plan)
    counted = machine[:, None] != machine if len(plan.on_machines) > 1 else True
    matrices = strategy.bytes_between([(variable, strategy)], plan, lambda _: rows).values()
    return sum(int((counted * sent).sum()) for sent in matrices)
