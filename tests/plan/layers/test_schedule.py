"""The step as Das et al. schedule it, by hand."""

import pytest

from models.layer import Layer
from refimpl.plan.layers.schedule import LayerWork, System, speedup, step_seconds, work_of

SYSTEM = System("slow", 1e6, 1e5)


def test_a_step_by_hand():
    # forwards first 0-1, gather 1-3, second 3-4; backwards second 4-6, its exchange 5-6, scatter 6-8; first 8-10,
    # whose exchange 9-12 is waited for before the next step
    first, second = LayerWork(1.0, 0.0, 3.0), LayerWork(1.0, 2.0, 1.0)
    assert step_seconds([first, second]) == 12.0
    assert step_seconds([LayerWork(1.0, 0.0, 1.0), second]) == 10.0  # an exchange that hides
    assert step_seconds([first, LayerWork(1.0, 2.0, 4.0)]) == 15.0  # the scatter waits for its turn on the network


def test_work_and_speedup():
    conv, connected = Layer("conv", 4, 8, 3, (6, 6), (6, 6)), Layer("connected", 288, 16)
    (a, b) = work_of([conv, connected], 4, 16, SYSTEM, 0.5)
    assert a == LayerWork(2 * 4 * 4 * 8 * 9 * 36 / 5e5, 0.0, 2 * 3 / 4 * 4 * 288 / 1e5)
    assert SYSTEM.balance == 10 and b.exchange == 2 * 0.5 * 4 * 288 * 16 * 2 / 4 / 1e5
    assert 1 < speedup([conv, connected], 4, 16, SYSTEM) < 4
    assert speedup([conv, connected], 4, 16, SYSTEM, 0.1) > speedup([conv, connected], 4, 16, SYSTEM)
    assert speedup([conv, connected], 1, 16, SYSTEM) == 1
    assert speedup([conv, connected], 4, 16, System("fast network", 1e6, 1e12)) == pytest.approx(4)
