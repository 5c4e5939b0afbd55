"""The parameter server: variables that live on owners, who serve their values, and sum and apply their gradients.

partition.py says who owns what, rows.py is the server, local_aggregation.py wraps it for the ranks of a machine;
dense.py serves whole dense variables. Plainly: ``refimpl.plain.server`` and ``refimpl.plain.aggregation``.
"""

from refimpl.server.clients import Aggregators, Clients
from refimpl.server.partition import SCHEMES, Partitioning, Route
from refimpl.server.shard import Holding, ReducedGradient, Shard

__all__ = ["SCHEMES", "Aggregators", "Clients", "Holding", "Partitioning", "ReducedGradient", "Route", "Shard"]
