"""Hold any implementation's numbers against ours, and name the bug.

Needs NumPy and rich, pytest where it runs under pytest; never ``models``, ``kernels`` or MPI.
"""

from refimpl.conformance.case import Case, Rows, Task, Variable
from refimpl.conformance.semantics import Semantics

__all__ = ["Case", "Rows", "Semantics", "Task", "Variable"]
