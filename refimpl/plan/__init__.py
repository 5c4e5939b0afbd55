"""The plan as data: the strategy and the owners of each variable, and the exact bytes of a step.

plan.py defines the plan, make.py makes one, choose.py chooses one, cost.py has its exact bytes, predict.py its seconds.
layers/ says which layers should be data-, model- or hybrid-parallel.
"""

from refimpl.plan.partitions.balance import imbalance, owner_loads
from refimpl.plan.cost import ledger_keys, predict_crossing, predict_step
from refimpl.plan.make import ARCHITECTURES, make_plan
from refimpl.plan.plan import Placement, Plan

__all__ = ["ARCHITECTURES", "Placement", "Plan", "imbalance", "ledger_keys", "make_plan", "owner_loads",
           "predict_crossing", "predict_step"]
