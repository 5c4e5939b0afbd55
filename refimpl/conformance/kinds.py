"""The kinds of case: the function of the adapter that is called, how it is called, and what it should return.

A call returns for each step name -> array or Rows of one rank. An expectation is for each step name -> Expected. Some
kinds have a check instead, of a property of all ranks' answers together.
"""

from dataclasses import dataclass
from typing import Any, Callable

import numpy as np

from refimpl.conformance.bounds import Expected
from refimpl.conformance.case import Case, Rows, Task, handed, inputs
from refimpl.conformance.cases import codecs, mesh
from refimpl.conformance.cases.bags import bags_of
from refimpl.conformance.cases.owner import arrivals_of
from refimpl.conformance.cases.training import start_of
from refimpl.conformance.semantics import Semantics
from refimpl.conformance.space.aggregation import Aggregation
from refimpl.conformance.space.codecs import Encoded
from refimpl.conformance.space.deviation import Machine
from refimpl.conformance.space.loss import Broadcast, Loss
from refimpl.conformance.space.mesh import Stepped
from refimpl.conformance.space.owner import Served
from refimpl.conformance.space.training import TrainingAnswers


@dataclass(frozen=True)
class Kind:
    """stage: aggregate, update, model, owner, mesh or codec.  functions: of an adapter; the first is called.

    call(functions, case, rank) -> answers.  machine: computes the expectation; None: see ``checks``.
    """

    stage: str
    functions: tuple[str, ...]
    call: Callable[[tuple, Case, int], list[dict[str, Any]]]
    machine: type[Machine] | None = None

    def expect(self, case: Case, semantics: Semantics) -> list[dict[str, Expected]] | None:
        """Return for each step name -> Expected; None for a kind with a check. Local."""
        return self.machine(case, semantics).expected() if self.machine else None


def taken(answer) -> dict[str, Any]:
    """Return an adapter's answer as arrays and Rows. Raises TypeError for anything else. Local."""
    if not isinstance(answer, dict):
        raise TypeError(f"the adapter returned {type(answer).__name__}: it must return a dict, name -> array")
    return {name: Rows(*map(np.array, part)) if isinstance(part, (tuple, list)) else np.array(part)
            for name, part in answer.items() if part is not None}


def _each_step(answer):
    def call(functions, case, rank):
        answers = [answer(functions, case, rank, step) for step in range(len(case.steps))]
        return [taken(a) for a in answers]  # read after all calls, so that views of a reused buffer are seen

    return call


_rows = _each_step(lambda functions, case, rank, step: functions[0](inputs(case, step, rank), case.shapes))


def _group(functions, case, rank, step):
    group = case.settings["group"]
    answer = functions[0](inputs(case, step, rank), list(group))
    return answer if rank in group else {}


def _loss(functions, case, rank, step):
    given = inputs(case, step, rank)
    loss, gradient = functions[0](given["losses"], given["gradients"])
    return {"loss": loss, "gradient": gradient}


def _each_of(name, dtype, numbers):
    """Return a call that returns the array ``name`` of each of some epochs or steps."""
    return lambda functions, case, rank: [{name: np.array(functions[0](case.settings["count"], n), dtype)}
                                          for n in numbers]


def _train(functions, case, rank):
    steps = [inputs(case, s, rank) for s in range(len(case.steps))]
    task = Task(variables=case.variables, start=start_of(case, rank), steps=steps, **case.settings["task"])
    return [taken(answer) for answer in functions[0](task)]


def _serve(functions, case, rank):
    answers = functions[0](arrivals_of(case, rank))
    pulls = [parts[rank] for parts, (what, _) in zip(case.steps, case.settings["entries"]) if what == "pull"]
    if len(answers) != len(pulls):
        raise TypeError(f"the adapter gave {len(answers)} answers to {len(pulls)} pulls: give one to each")
    result = []
    for (waited, values), ids in zip(answers, pulls):
        parts = {name: Rows(ids[name], part) if name in ids and not isinstance(part, Rows) else part
                 for name, part in taken(values).items()}
        result.append({**parts, "waited": np.array(waited, np.int64)})
    return result


def _mesh_step(functions, case, rank):
    answer = mesh.named(case, rank, taken(functions[0](mesh.task_of(case, rank, inputs(case, 0, rank)))))
    return [{**answer, "loss": np.asarray(answer.get("loss", np.nan), np.float64)}]


def _encode(functions, case, rank):
    given = [inputs(case, s, rank) for s in range(len(case.steps))]
    return [taken(answer) for answer in functions[0](codecs.task_of(case, rank, given))]


KINDS = {
    "dense": Kind("aggregate", ("aggregate_dense",), _each_step(lambda f, c, r, s: f[0](inputs(c, s, r))),
                  Aggregation),
    "rows": Kind("aggregate", ("aggregate_rows",), _rows, Aggregation),
    "mixed": Kind("aggregate", ("aggregate_all",), _rows, Aggregation),
    "uses": Kind("aggregate", ("aggregate_uses",), _rows, Aggregation),
    "bags": Kind("aggregate", ("aggregate_bags",), _each_step(lambda f, c, r, s: f[0](
        {name: tuple(handed(bags_of(r))) for name in c.shapes}, c.shapes, **c.settings["bags"])), Aggregation),
    "group": Kind("aggregate", ("aggregate_group",), _each_step(_group), Aggregation),
    "broadcast": Kind("aggregate", ("broadcast",),
                      _each_step(lambda f, c, r, s: f[0](inputs(c, s, r), c.settings["root"])), Broadcast),
    "fusion": Kind("aggregate", ("aggregate_dense", "messages"), _each_step(lambda f, c, r, s: {
        **f[0](inputs(c, s, r)), "messages": np.array(f[1](), np.int64)}), Aggregation),
    "update": Kind("update", ("update",), _train, TrainingAnswers),
    "accumulate": Kind("update", ("accumulate",), _train, TrainingAnswers),
    "resume": Kind("update", ("resume",), _train, TrainingAnswers),
    "loss": Kind("model", ("reduce_loss",), _each_step(_loss), Loss),
    "sampler": Kind("model", ("sample",), _each_of("examples", np.int64, (0, 1))),
    "owner": Kind("owner", ("serve",), _serve, Served),
    "mesh": Kind("mesh", ("mesh_step",), _mesh_step, Stepped),
    "codec": Kind("codec", ("encode_steps",), _encode, Encoded),
    "random": Kind("model", ("draw",), _each_of("draws", np.float64, (0, 1, 0))),
}
