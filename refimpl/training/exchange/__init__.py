"""The exchanges of a step: one after the other, or beside the computation."""
