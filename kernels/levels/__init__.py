"""Gradients of a few levels an element, packed without gaps: signs and their means, or any levels. NumPy only."""

from kernels.levels import definition
from kernels.levels.fast import encode_signs, look_up, quantise, three_levels

__all__ = ["definition", "encode_signs", "look_up", "quantise", "three_levels"]
