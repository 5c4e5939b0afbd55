"""Models on one device: hand-written forward and backward, no communication (DESIGN, Rooms).

A model is anything with ``variables``, ``rows_needed`` and ``loss_and_gradients`` (see ``models.protocol``).
"""

from models.protocol import Batch, Model
from models.variable import Constant, Uniform, Variable

__all__ = ["Batch", "Constant", "Model", "Uniform", "Variable"]
