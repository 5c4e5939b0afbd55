"""Hybrid data and model parallelism, measured and predicted, beside what SplitBrain and Das et al. report."""

PARTS = ("scaling", "bytes", "memory", "crossing", "weak", "peer")
"""Each is a module of this package and has ``study(quick) -> Finding``; in this order in the report."""
HEAD = """# Hybrid data and model parallelism

Convolutional layers have little to send and much to compute, fully connected ones the reverse. Here a mesh of DATA x
MODEL ranks is held against what SplitBrain (arXiv 2112.15317) and Das et al. (arXiv 1602.06709) report.
"""
