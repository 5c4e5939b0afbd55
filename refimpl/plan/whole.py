"""Equals plain/strategies/cost_table.goes_whole: ``hybrid`` sends a table whole if its rows take no fewer bytes.

    by rows   numbers of the touched rows, their values, their gradients     grows with α
    whole     gradients of all rows, and a mark for each row                 does not depend on α; nothing is pulled

The exact bytes of each table are compared, with the rows of the first sampled step: between machines, or between ranks
if there is only one machine. The choice is written to the plan. It changes no bit of the result.
"""

from refimpl.plan.between import Between
from refimpl.plan.cost import machine_numbers
from refimpl.plan.make import AS_DENSE
from refimpl.plan.plan import Plan
from refimpl.plan.sample import Sample, workers_of
from refimpl.plan.strategy import strategy_of

MOST_TOLD = 4


def with_whole(plan: Plan, variables, sample: Sample) -> tuple[Plan, dict[str, str]]:
    """Return the plan in which tables with an α near 1 are sent whole, and variable -> the reason. Local.

    sample: must contain the first step. The plan is not changed without a sample, on one rank, or if the allreduce adds
    in another order than the server.
    """
    chosen, reasons = {}, {}
    if not sample.steps or not plan.predicted()[1]:
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
    """Return the choices of ``with_whole`` and their reasons as one line; None if there are none. Local."""
    told = [f"{name} ({reason})" for name, reason in reasons.items()]
    more = [f"and {len(told) - MOST_TOLD} more"] * (len(told) > MOST_TOLD)
    return f"hybrid: whole, by allreduce, go {', '.join(told[:MOST_TOLD] + more)}" if told else None


def _sent(plan, variable, strategy, sample) -> int:
    """Return the bytes of a variable between machines, or ranks if there is one machine, in the first sampled step."""
    rows = sample.pulled(0, variable.name, plan.ranks), sample.pushed(0, variable.name, plan.ranks)
    sent = strategy.bytes_between([(variable, strategy)], plan, lambda _: rows).values()
    ways = [Between.of(matrix).by_machine(machine_numbers(plan)).sum(axis=1) for matrix in sent]
    return int(sum(out if len(plan.on_machines) > 1 else within for out, _, within in ways))
