"""Golden traces of whole trainings: written, read, exported, and held against another implementation's.

Needs NumPy, msgspec and safetensors; only ``record`` needs models and kernels.
"""
