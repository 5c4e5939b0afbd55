"""The exchanges of a step: after the computation, with dense gradients leaving early, or all beside it (overlapped)."""
