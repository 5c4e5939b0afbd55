"""The plan of a training: the one that was given, the one that ``auto`` chooses, or the architecture's."""

import json
from dataclasses import replace

from refimpl.collectives.simulation.calibrate import network_of
from refimpl.plan import make_plan
from refimpl.plan.balance import by_popularity
from refimpl.plan.choose import choose_plan
from refimpl.plan.plan import SYNCHRONOUS, Plan
from refimpl.plan.report import describe
from refimpl.plan.sample import STEPS, Sample, take_sample
from refimpl.plan.validate import check_plan
from refimpl.strategies.codec import CODECS
from refimpl.training.checked.values import check_needs
from refimpl.training.consistency import CONSISTENCIES
from refimpl.training.planning.allreduce_choice import choose_allreduce, write_network
from refimpl.training.planning.mesh_choice import on_mesh


def plan_of(model, data, options, comm, network_file=None) -> tuple[Plan, str | None]:
    """Return (the plan, why it is so or None), the same on every rank. Collective; ranks have agreed on their options.

    network_file: where the calibrated network is kept, None: nowhere.  Raises CollectiveError.
    """
    if options.plan is not None:
        return comm.together(lambda: _given(model, data, options, comm)), None
    if options.architecture == "auto":
        plan, reason = _auto(model, data, options, comm, network_file)
        return on_mesh(consistent(plan, options), reason, model, data, options, comm, network_file)
    choice = choose_allreduce(model.variables, options, comm, data.microbatches, network_file)
    allreduce, reason = choice or (options.allreduce, None)
    plan = comm.together(lambda: make_plan(
        model.variables, options.architecture, comm.size, data.microbatches, sparse_as_dense=options.sparse_as_dense,
        shard_optimizer=options.shard_optimizer, allreduce=allreduce, machines=comm.machines, **placing(options)),
        (ValueError,))
    plan = consistent(balanced(plan, model, data, options, comm), options)
    return on_mesh(plan, reason, model, data, options, comm, network_file)


def consistent(plan, options) -> Plan:
    """Return the plan with the consistency that the options say: without barriers nobody's gradients are merged. Local.
    """
    together = plan.local_aggregation and options.consistency == SYNCHRONOUS
    return replace(plan, consistency=options.consistency, local_aggregation=together)


def placing(options) -> dict:
    """Return the options that say how variables are placed on the server, as ``make_plan`` takes them. Local."""
    return {name: getattr(options, name) for name in ("partitions", "scheme", "local_aggregation")}


def _given(model, data, options, comm):
    return check_plan(Plan.from_json(options.plan), model.variables, comm.size, data.microbatches, comm.machines,
                      consistencies=CONSISTENCIES, codecs=CODECS)


def balanced(plan, model, data, options, comm) -> Plan:
    """Give partitions to owners by the popularity of their rows, if the options say so. Collective.

    Rank 0 looks it up; what it found is everyone's.
    """
    if options.balance == "bytes":
        return plan

    def place():
        pulls = sample_of(model, data, options.seed).pulls_per_step(comm.machines, options.local_aggregation)
        return json.dumps(plan.replaced(by_popularity(model.variables, plan.strategies, pulls, comm.size)).to_json())

    return Plan.from_json(json.loads(comm.once(place)))


def sample_of(model, data, seed: int, steps: int = STEPS) -> Sample:
    """Return the rows that a training will touch in some of its steps; the model's answers are checked. Local."""
    return take_sample(model, data, seed, steps, lambda needs: check_needs(model.variables, needs))


def _auto(model, data, options, comm, network_file):
    """Rank 0 looks at the data and chooses; what it found is everyone's."""
    network = network_of(comm, network_file, write_network)

    def choose():
        chosen = choose_plan(model.variables, sample_of(model, data, options.seed), network, data.microbatches,
                             allreduce=options.allreduce, balance=options.balance, **placing(options))
        return json.dumps({"plan": chosen.plan.to_json(), "reason": describe(chosen)})

    found = json.loads(comm.once(choose))
    return Plan.from_json(found["plan"]), found["reason"]
