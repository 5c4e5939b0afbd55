"""Training without a server: each rank trains a replica, and averages it with others.

meetings   how replicas are averaged: EASGD, gossip, local steps
replica    a rank's steps of its own replica
run        all steps of a training, and the exchange of replicas
"""
