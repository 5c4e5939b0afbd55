"""Training without a server: each rank trains a replica of its own, and meets others.

    meetings   how they meet: EASGD, gossip, local steps
    replica    what a rank does by itself
    run        all steps of a training, and how a rank reaches the others' replicas
"""
