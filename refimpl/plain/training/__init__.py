"""Whole trainings in which all ranks take each step together."""
