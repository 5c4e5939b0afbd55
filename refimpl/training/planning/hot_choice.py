"""``--hot-rows``: so many first rows of each served variable are replicated, or as many as are predicted to pay."""

import json

from refimpl.collectives.simulation.calibrate import network_of
from refimpl.plan import Plan
from refimpl.strategies.choose_hot import choose_hot_rows, describe_hot
from refimpl.strategies.hot_rows import with_hot_rows
from refimpl.training.planning.allreduce_choice import write_network
from refimpl.training.planning.planning import balanced, sample_of


def add_hot_rows(plan: Plan, reason: str | None, model, data, options, comm, network_file=None):
    """Return the plan with the hot rows that the options ask for, and the reason with why. Collective.

    network_file: see ``plan_of``.  Raises CollectiveError if there is nothing that could have hot rows.
    """
    if not options.hot_rows:
        return plan, reason
    comm.together(lambda: _check(plan, model.variables, options))
    if options.hot_rows != "auto":
        hot = {v.name: min(options.hot_rows, v.shape[0]) for v in plan.partitioned(model.variables)}
        return balanced(with_hot_rows(plan, hot), model, data, options, comm), reason
    network = network_of(comm, network_file, write_network)

    def choose():
        sample = sample_of(model, data, options.seed)
        chosen, forecasts = choose_hot_rows(plan, model.variables, sample, network)
        return json.dumps({"plan": chosen.to_json(), "reason": describe_hot(forecasts)})

    found = json.loads(comm.once(choose))
    chosen = balanced(Plan.from_json(found["plan"]), model, data, options, comm)  # partitions are of other rows now
    return chosen, "\n".join(filter(None, (reason, found["reason"])))


def _check(plan, variables, options):
    """Raise ValueError if the plan was given, or sends no sparse variable to the server. Local."""
    if options.plan is not None:
        raise ValueError("--plan says itself how many rows are hot; leave --hot-rows out, or edit the plan")
    if plan.architecture != "auto" and not plan.partitioned(variables):
        raise ValueError(f"--hot-rows: no sparse variable of this model goes to the server under architecture "
                         f"{plan.architecture}; leave the option out, or resume with --hot-rows 0")
