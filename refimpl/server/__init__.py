"""The parameter server: variables that live on owners, who serve their values and sum and apply their gradients."""

from refimpl.server.groups import Groups
from refimpl.server.partition import SCHEMES, Partitioning, Route
from refimpl.server.places import Places
from refimpl.server.road import Holding, Road, Summed
from refimpl.server.served_dense import ServedDense
from refimpl.server.served_rows import ServedRows

__all__ = ["SCHEMES", "Groups", "Holding", "Partitioning", "Places", "Road", "Route", "ServedDense", "ServedRows",
           "Summed"]
