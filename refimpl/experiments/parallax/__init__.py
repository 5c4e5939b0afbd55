"""The paper's experiment on an emulated cluster: throughput, sparsity degree, partitions, convergence; one command."""
