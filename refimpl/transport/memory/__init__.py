"""Memory of a machine's ranks: shared memory, waits in it, and sums of arrays in the ranks' private memory."""
