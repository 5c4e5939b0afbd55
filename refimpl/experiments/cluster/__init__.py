"""A cluster on one machine: its machines are namespaces, its cables token buckets, with TCP between machines."""

from refimpl.experiments.cluster.description import Cluster, Event, cables_of, parse_rate
from refimpl.experiments.cluster.namespaces import ClusterError
from refimpl.experiments.cluster.run import ClusterRun, missing, run_on_cluster

__all__ = ["Cluster", "ClusterError", "ClusterRun", "Event", "cables_of", "missing", "parse_rate", "run_on_cluster"]
