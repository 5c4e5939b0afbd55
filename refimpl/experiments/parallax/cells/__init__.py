"""Cells: one training each, run on the emulated cluster; its result is kept as a file."""
