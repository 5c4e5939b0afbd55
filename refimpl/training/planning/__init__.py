"""Which plan a training follows: as given, as chosen; partitions tried and moved while it runs."""
