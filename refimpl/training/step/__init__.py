"""The exchanges of a step: one after the other (sequential.py), or beside the computation (overlapped.py)."""
