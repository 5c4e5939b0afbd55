"""Training without a server (``run``): each rank trains a replica, and averages it with others (``meetings``)."""
