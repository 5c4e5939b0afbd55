"""Golden traces of whole trainings: written, read, exported, and held against another implementation's.

Needs NumPy and safetensors; only ``recipes``, ``record`` and ``regenerate`` need models and kernels.
"""
