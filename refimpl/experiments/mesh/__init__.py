"""Hybrid data and model parallelism, measured and predicted, beside what SplitBrain and Das et al. report."""

PARTS = {"scaling": "refimpl.experiments.mesh.scaling"}
"""Name -> module with ``study(quick) -> Finding``; in this order in the report. To add one: its module and its line."""
