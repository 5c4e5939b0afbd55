"""Golden traces of whole trainings: written, read, exported, and held against another implementation's.

Needs NumPy, msgspec and safetensors; only ``recipes`` and ``record`` need models and kernels.
"""
