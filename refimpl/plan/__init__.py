"""The plan as data: the strategy and the owners of each variable. And the exact bytes of a plan.

plan.py is the data, make.py makes it, choose.py chooses it, cost.py has its exact bytes, predict.py its seconds.
mesh/ says which layers should be data-, model- or hybrid-parallel.
"""

from refimpl.plan.partitions.balance import imbalance, owner_loads
from refimpl.plan.cost import ledger_keys, predict_crossing, predict_step
from refimpl.plan.make import ARCHITECTURES, make_plan
from refimpl.plan.plan import Placement, Plan

__all__ = ["ARCHITECTURES", "Placement", "Plan", "imbalance", "ledger_keys", "make_plan", "owner_loads",
           "predict_crossing", "predict_step"]
