"""How long a schedule takes on a network, described or measured."""
