"""Ranks as a mesh, data-parallel x model-parallel: who is in which group, and what that costs."""
