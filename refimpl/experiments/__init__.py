"""What experiments need: a launcher, the emulated cluster, comparisons, benchmarks, pictures."""
