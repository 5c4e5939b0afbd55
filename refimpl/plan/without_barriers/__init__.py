"""The cost of a training without barriers: bytes, and throughput with slow workers. Nothing is computed or sent.

cost.py has the exact bytes of a worker's step, clock.py the times of pulls and pushes, predict.py the throughput under
each consistency. The consistencies are defined in ``refimpl.plain.without_barriers.consistencies``.
"""

from refimpl.plan.without_barriers.cost import bytes_of_last_pull, bytes_of_worker_step
from refimpl.plan.without_barriers.predict import Prediction, predict_without_barriers, seconds_with

__all__ = ["Prediction", "bytes_of_last_pull", "bytes_of_worker_step", "predict_without_barriers", "seconds_with"]
