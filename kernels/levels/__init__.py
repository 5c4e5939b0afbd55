"""Gradients with a few levels for each element, packed without gaps: signs with their means, or any levels."""

from kernels.levels import definition
from kernels.levels.fast import encode_signs, look_up, quantise, three_levels

__all__ = ["definition", "encode_signs", "look_up", "quantise", "three_levels"]
