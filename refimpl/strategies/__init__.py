"""Strategies: how a variable is stored and exchanged, and its exact bytes. Each file holds one strategy.

A strategy is a value of the plan (``refimpl.plan.strategy``). Its exchange (``exchange.py``) runs in a training.
"""

from refimpl.plan.strategy import STRATEGIES
from refimpl.strategies.allgather import GatheredRows
from refimpl.strategies.allreduce import Allreduce
from refimpl.strategies.as_dense import RowsAsDense
from refimpl.strategies.columns import Columns
from refimpl.strategies.dense_server import ServedDense
from refimpl.strategies.encoded.elements import GatheredElements
from refimpl.strategies.hot_rows import HotRows
from refimpl.strategies.encoded.low_rank import LowRank
from refimpl.strategies.encoded.messages import GatheredMessages
from refimpl.strategies.reduce_scatter import ReduceScatter
from refimpl.strategies.server import ServedRows

# in the order in which the exchanges of a step begin: pulled variables first, and rows before dense variables
for _strategy in (ServedRows, HotRows, GatheredRows, RowsAsDense, GatheredElements, GatheredMessages, LowRank,
                  ServedDense, ReduceScatter, Columns, Allreduce):
    STRATEGIES[_strategy.name, _strategy.sparse] = _strategy

__all__ = ["STRATEGIES", "Allreduce", "Columns", "GatheredElements", "GatheredMessages", "GatheredRows", "HotRows",
           "LowRank", "ReduceScatter", "RowsAsDense", "ServedDense", "ServedRows"]
