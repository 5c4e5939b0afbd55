"""The exchanges of a step: after the computation, or overlapping with it, wholly or for dense gradients only."""
