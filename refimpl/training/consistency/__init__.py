"""How old the values may be that a worker computes with: one class a consistency, named by the plan."""

from refimpl.plan.plan import SYNCHRONOUS
from refimpl.training.consistency.synchronous import Synchronous

CONSISTENCIES = {SYNCHRONOUS: Synchronous}
"""Name -> class."""

__all__ = ["CONSISTENCIES", "Synchronous"]
