"""Our allreduce raced against the MPI library's, gloo's and NCCL's: ``run`` starts the ranks."""
