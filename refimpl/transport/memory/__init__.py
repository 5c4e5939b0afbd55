"""Memory of a machine's ranks: what they share, how they wait for each other in it, and each other's private arrays."""
