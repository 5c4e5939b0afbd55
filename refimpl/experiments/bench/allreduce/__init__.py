"""Benchmarks of our allreduce against the MPI library's, gloo's and NCCL's. ``run`` starts the ranks."""
