"""Each file runs by itself, and plans know the strategies that were imported."""

import refimpl.strategies  # noqa: F401
