"""refimpl: an executable reference for hybrid, sparsity-aware data-parallel training (Parallax, EuroSys '19).

Docstrings call a function *collective* if all ranks must call it, and *local* if a rank may call it alone.
Each name is loaded when it is first used, so that ``refimpl.conformance`` also works without ``models`` and ``mpi4py``.
"""

from refimpl.handed_on import handed_on

__version__ = "0.1.0"

_HOME = {
    "CollectiveError": "refimpl.transport",
    "Data": "models.data",
    "Examples": "models.data",
    "Options": "refimpl.training.options",
    "Result": "refimpl.training.result",
    "TokenStreams": "models.data",
    "Trainer": "refimpl.training.trainer",
    "load": "models.data",
    "train": "refimpl.training.session",
    "Batch": "models",
    "Constant": "models",
    "Model": "models",
    "RowGradient": "kernels",
    "Uniform": "models",
    "Variable": "models",
    "aggregate_rows": "kernels",
    "merge_rows": "kernels",
}

__all__ = sorted(_HOME)
__getattr__, __dir__ = handed_on(__name__, _HOME)
