"""Training without a server: each rank trains a replica of its own, and meets others.

    meetings   how they meet: EASGD, gossip, local steps      others   how a rank reaches the others' replicas
    replica    what a rank does by itself                     run      a training from its beginning to its end
"""
