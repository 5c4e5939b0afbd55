"""Gradients that are encoded for the way, and what the encoding left out."""
