"""Draws README's picture: what passes the busiest card in a step of the language model, on 8 machines, three ways.

    python docs/examples/step_bytes.py docs/step-bytes.svg

Nothing is trained or sent: plans say their bytes, and a training's ledger equals them (docs/design.md, I2).
"""

import sys

import numpy as np

from models.recipe import build, recipe_of
from refimpl.collectives.simulation.network import Network
from refimpl.pictures.runs import plot_busiest
from refimpl.plan.cost import bytes_between
from refimpl.plan.sample import take_sample
from refimpl.training.planning.plan_ahead import plan_ahead
from refimpl.transport.machines import in_blocks

MACHINES = Network(in_blocks(8, 1), latency=1e-4, bandwidth_out=25e6, bandwidth_in=25e6)  # 200 Mbit/s
MODEL = {"data": "synthetic:100000", "sizes": {"samples": 4096}}
WAYS = "hybrid", "ps", "allreduce"


def bytes_of(architecture, steps=4):
    """Return kind -> (8,) bytes that each machine sends and receives in a step, the mean of the first ones. Local."""
    recipe, options = recipe_of("lm", MODEL)
    model, data, _ = build(recipe, options.get("seed", 0))
    plan = plan_ahead("lm", MACHINES, **MODEL, architecture=architecture, allreduce="halving-doubling").plan
    sample = take_sample(model, data, 0, steps)
    found = {}
    for step in range(steps):
        for (_, _, kind), sent in bytes_between(plan, model.variables, *sample.both(step, plan.ranks)).items():
            found[kind] = found.get(kind, np.zeros(plan.ranks)) + (sent.sum(axis=0) + sent.sum(axis=1)) / steps
    return found


def draw():
    """Return the picture. Local."""
    return plot_busiest({architecture: bytes_of(architecture) for architecture in WAYS})


if __name__ == "__main__":
    print(draw().text)
    print("written:", draw().save(sys.argv[1]))
