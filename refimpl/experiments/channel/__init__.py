"""Measure a tensor channel, gRPC and MPI's messages: the time until the reader has added up a tensor, by size."""

PARTS = {"machine": ("shared", "rma", "landing", "MPI two-sided", "gRPC", "gRPC stream"),
         "network": ("rma", "landing", "MPI two-sided", "gRPC", "gRPC stream"),
         "step": ("none", "shared", "landing", "rma")}
"""Part of the report -> the ways that are measured there."""
HEAD = """# A tensor channel, beside gRPC

"RPC considered harmful" (Xue et al., EuroSys '19, arXiv 1805.08430) lets a rank write tensors straight into memory that
a plan has reserved at the reader. Its abstract says: up to 25 times as fast as TensorFlow's gRPC, and up to 1.69 times
as fast as RPC tuned for RDMA, on InfiniBand and end to end. Here a rank sends a tensor of float64. The reader adds up
its elements and sends back their sum, a single number. The time is from one to the other at the sender. A tenth of the
turns were quicker: other programs of the machine delay the rest. There is no RDMA card: on one machine *shared* takes
its place, and between emulated machines MPI emulates one-sided access over TCP.
"""
