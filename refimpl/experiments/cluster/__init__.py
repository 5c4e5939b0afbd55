"""A cluster on one machine: namespaces as machines, token buckets as cables, real TCP between, shared memory inside."""

from refimpl.experiments.cluster.description import Cluster, Event, cables_of, parse_rate
from refimpl.experiments.cluster.namespaces import ClusterError

__all__ = ["Cluster", "ClusterError", "ClusterRun", "Event", "cables_of", "missing", "parse_rate", "run_on_cluster"]


def __getattr__(name):  # the launcher, which starts once a machine, needs none of this
    if name in ("ClusterRun", "missing", "run_on_cluster"):
        from refimpl.experiments.cluster import run

        return getattr(run, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
