"""The parameter server. The owner of a variable, or of some of its rows, serves values, and sums and applies gradients.

partition.py assigns rows to owners, moves.py moves them to other owners. rows.py is the server. local_aggregation.py
wraps it for the ranks of a machine. dense.py serves dense variables. The plain versions: ``refimpl.plain.strategies``'
server and aggregation.
"""

from refimpl.server.clients import Aggregators, Clients
from refimpl.server.partition import SCHEMES, Partitioning, Route
from refimpl.server.shard import Holding, ReducedGradient, Shard

__all__ = ["SCHEMES", "Aggregators", "Clients", "Holding", "Partitioning", "ReducedGradient", "Route", "Shard"]
