"""Predict how long a schedule takes on a network, which is described or measured."""
