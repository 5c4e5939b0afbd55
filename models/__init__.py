"""Models on one device: hand-written forward and backward, no communication (docs/design.md, Rooms).

A model is an object with ``variables``, ``rows_needed`` and ``loss_and_gradients`` (see ``models.protocol``).
"""

from models.protocol import Batch, Model
from models.variable import STATISTIC_RATE, Constant, Uniform, Variable

__all__ = ["STATISTIC_RATE", "Batch", "Constant", "Model", "Uniform", "Variable"]
