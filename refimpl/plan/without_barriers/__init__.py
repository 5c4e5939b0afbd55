"""What a training without barriers costs: bytes, and throughput with slow workers. Nothing is computed or sent.

cost.py has the exact bytes of a worker's step, clock.py says when workers would pull and push, predict.py what that
gives under each consistency. What consistencies are: ``refimpl.plain.consistencies``.
"""

from refimpl.plan.without_barriers.cost import bytes_of_last_pull, bytes_of_worker_step
from refimpl.plan.without_barriers.predict import Prediction, predict_without_barriers, seconds_with

__all__ = ["Prediction", "bytes_of_last_pull", "bytes_of_worker_step", "predict_without_barriers", "seconds_with"]
