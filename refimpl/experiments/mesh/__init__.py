"""Hybrid data and model parallelism, measured and predicted, beside what SplitBrain and Das et al. report."""

PARTS = {name: f"refimpl.experiments.mesh.{name}"
         for name in ("scaling", "bytes", "memory", "crossing", "weak", "peer")}
"""Name -> module with ``study(quick) -> Finding``; in this order in the report. To add one: its module and its line."""
