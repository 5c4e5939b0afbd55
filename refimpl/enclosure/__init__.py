"""Enclosures: bounds for the numbers of every correct training, on any device, in any order, by any library.

A training runs once on arrays of balls (``enclosed_steps``); the parameters of any other one are then held against them
(``within``). So two devices differ by at most two radii: proved by computation, for this very training.

A training is correct if it does the operations that model, kernels' definitions and optimizer write down, each within
``rounding``: sums and products in any order, an LSTM's with what is added to them, convolutions also by Winograd's
algorithm.
"""

from refimpl.enclosure.compare import Distance, OutsideError, distances, within
from refimpl.enclosure.enclosure import Enclosure
from refimpl.enclosure.training import (
    State, enclosed_step, enclosed_steps, initial_state, read_state, state_at,
)

__all__ = ["Distance", "Enclosure", "OutsideError", "State", "distances", "enclosed_step", "enclosed_steps",
           "initial_state", "read_state", "state_at", "within"]
