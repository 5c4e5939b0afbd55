"""The plan: which way each variable travels and who owns it, as data; and the bytes that this must cost."""

from refimpl.plan.balance import imbalance, owner_loads
from refimpl.plan.cost import ledger_keys, predict_crossing, predict_step
from refimpl.plan.placement import ARCHITECTURES, Placement, Plan, make_plan

__all__ = ["ARCHITECTURES", "Placement", "Plan", "imbalance", "ledger_keys", "make_plan", "owner_loads",
           "predict_crossing", "predict_step"]
