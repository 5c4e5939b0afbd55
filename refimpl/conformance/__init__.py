"""Hold any implementation's numbers against ours, and name the bug.

The comparison needs NumPy; rich to print to a terminal, pytest to run under it; never ``models``, ``kernels`` or MPI.
Those are for our own adapter (``adapters``), and for recording golden traces (``traces``).
"""

from refimpl.conformance.case import Arrivals, Case, CaseVariable, Rows, Task
from refimpl.conformance.semantics import Semantics

__all__ = ["Arrivals", "Case", "CaseVariable", "Rows", "Semantics", "Task"]
