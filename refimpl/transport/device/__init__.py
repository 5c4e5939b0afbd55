"""Device arrays travel between ranks.

    choice        chooses the transport for these ranks' GPUs, says why, and opens it
    connections   NCCL's connections, kept for the next use; calls with a time-out
    nccl          from GPU to GPU, on NCCL's own stream
    repeated      messages that start again each time, for transports without persistent requests
    staged        through host memory and MPI: always possible
"""
