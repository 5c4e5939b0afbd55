"""Device arrays on their way between ranks.

    choice        which transport serves these ranks' GPUs, and why; opens it
    connections   NCCL's connections, kept to be taken again; calls that end in time
    nccl          from GPU to GPU, on a stream of NCCL's own
    repeated      messages begun anew each time, for transports without persistent requests
    staged        through host memory and MPI: always possible
"""
