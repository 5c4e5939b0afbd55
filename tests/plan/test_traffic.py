"""What a variable puts on the network: the exact bytes of cost.py by machine, the mean of the sampled steps."""

from collections import defaultdict

import numpy as np
import pytest

from models import Variable
from refimpl.plan import make_plan, predict_crossing, predict_step
from refimpl.plan.predict import traffic_of
from refimpl.plan.sample import Sample
from refimpl.transport.machines import in_blocks

ROWS, DENSE, RANKS, LEAVES, STEPS = Variable("rows", (37, 3), sparse=True), Variable("dense", (11,)), 5, 7, 2


def counted(plan, variable, sample, machines):
    """Return (phase, kind) -> (3, machines) bytes out of, into and within each machine, of a mean step."""
    found = defaultdict(lambda: np.zeros((3, len(machines))))
    for step in range(STEPS):
        for number, ranks in enumerate(machines):
            sets = sample.both(step, RANKS)
            crossing = predict_crossing(plan, [variable], *sets, number)
            for (phase, name, kind), (sent, _) in predict_step(plan, [variable], *sets, list(ranks)).items():
                out, into = crossing.get((phase, name, kind), (0, 0))
                if phase != "norm":
                    found[phase, kind][:, number] += np.array([out, into, sent - out]) / STEPS
    return found


@pytest.mark.parametrize("machines", [in_blocks(RANKS, 1), ((0, 2), (1, 3, 4)), (tuple(range(RANKS)),)], ids=str)
@pytest.mark.parametrize("architecture, variable", [("hybrid", ROWS), ("allreduce", ROWS), ("ps", DENSE)], ids=str)
def test_it_is_what_cost_counts(architecture, variable, machines):
    """Uneven microbatches, so several nodes a rank; a machine whose ranks do not follow each other."""
    rng = np.random.default_rng(len(machines))
    touched = tuple({"rows": [np.flatnonzero(rng.random(37) < 0.3) for _ in range(LEAVES)]} for _ in range(STEPS))
    sample = Sample(LEAVES, {"rows": 37}, tuple(range(STEPS)), touched)
    plan = make_plan([variable], architecture, RANKS, LEAVES, machines=machines)
    traffic = traffic_of([(variable, plan.strategies[variable.name])], plan, sample)
    expected = counted(plan, variable, sample, machines)
    assert traffic.moved.keys() == expected.keys()
    for name, moved in expected.items():
        np.testing.assert_allclose(traffic.moved[name], moved)
    assert all(messages.sum() % 2 == 0 for messages in traffic.messages.values())
