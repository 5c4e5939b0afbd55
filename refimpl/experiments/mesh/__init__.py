"""Hybrid data and model parallelism, measured and predicted, beside the reports of SplitBrain and Das et al."""

PARTS = ("scaling", "bytes", "memory", "crossing", "weak", "peer")
"""Modules of this package, each with ``study(quick) -> Finding``, in the order of the report."""
HEAD = """# Hybrid data and model parallelism

Convolutional layers have little to send and much to compute, fully connected ones the reverse. Here a mesh of DATA x
MODEL ranks is held against what SplitBrain (arXiv 2112.15317) and Das et al. (arXiv 1602.06709) report.
"""
