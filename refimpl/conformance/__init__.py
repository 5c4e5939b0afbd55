"""Hold any implementation's numbers against ours, and name the bug.

Needs NumPy; rich to print to a terminal, pytest to run under it; never ``models``, ``kernels`` or MPI.
"""

from refimpl.conformance.case import Case, Rows, Task, Variable
from refimpl.conformance.semantics import Semantics

__all__ = ["Case", "Rows", "Semantics", "Task", "Variable"]
