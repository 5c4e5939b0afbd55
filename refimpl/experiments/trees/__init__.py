"""Packed trees on every allocation of a DGX-1, beside the best rings or, if there is no ring, PCIe, as in Blink."""

MACHINES = {"dgx-1p": (14, 20e9, 10.6e12), "dgx-1v": (46, 25e9, 15.7e12)}
"""Machine -> its connected allocations of 3 to 8 GPUs, bytes/s of an NVLink one way, FLOP/s of a GPU in float32."""
PARTS = (*MACHINES, "packets")
"""Only the last one sends anything."""
HEAD = """# Trees for the links that are there

A job is often given some GPUs of a machine, and then no ring may go through its NVLinks. Blink (arXiv 1910.04940) packs
spanning trees into whatever links there are. Its abstract says: model synchronisation up to 8 times as fast as NCCL's,
and up to 40 % less time end to end for image classification. Here packed trees at the best rate are held against the
best rings, by formulas and by simulation, and sent over emulated machines that are wired as an allocation.
"""
